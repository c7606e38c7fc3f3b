Bbody.4.bias_gradJÎ
Î=šù½=®<