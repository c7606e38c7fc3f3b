/* test_grad_rows.c — derivatives of ops with many ways to be used, each way against differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "grad/check.h"
#include "ir/registry.h"

typedef struct row {
  const char *op, *text;
  double low, high; /* of inputs; equal: any */
  double step;      /* 0: the usual */
} row;

#define RNN_TAIL "float[1,4,3], float[1,4,4]"
static const row rows[] = {
    {"onnx.AffineGrid", "float[2,2,3], int64[4] = {2, 1, 3, 4}", 0, 0, 0},
    {"onnx.AffineGrid", "float[1,3,4], int64[5] = {1, 1, 2, 2, 3} {align_corners = 1}", 0, 0, 0},
    {"onnx.Attention", "float[1,2,3,4], float[1,2,5,4], float[1,2,5,6], float[3,5]", 0, 0, 0},
    {"onnx.Attention", "float[1,2,3,4], float[1,2,5,4], float[1,2,5,6], bool[1,5] = {1, 0, 1, 1, 0}", 0, 0, 0},
    {"onnx.Attention",
     "float[2,3,8], float[2,3,4], float[2,3,4], , float[2,1,2,4], float[2,1,2,4] {q_num_heads = 2, kv_num_heads = 1, "
     "is_causal = 1, softcap = 2.0, scale = 0.7} => 4",
     0, 0, 0},
    {"onnx.Attention", "float[1,1,4,3], float[1,1,4,3], float[1,1,4,2] {left_window_size = 1, right_window_size = 1}",
     0, 0, 0},
    {"onnx.Attention", "float[1,1,2,3], float[1,1,4,3], float[1,1,4,2], float[2,4] {qk_matmul_output_mode = 3} => 4", 0,
     0, 0},
    {"onnx.Attention", "float[2,1,2,3], float[2,1,4,3], float[2,1,4,2], , , , int64[2] = {3, 4} {is_causal = 1}", 0, 0,
     0},
    {"onnx.AveragePool",
     "float[1,2,5,6] {kernel_shape = [3,2], strides = [2,2], pads = [1,0,1,1], ceil_mode = 1, count_include_pad = 1}",
     0, 0, 0},
    {"onnx.AveragePool", "float[2,1,7] {kernel_shape = [2], dilations = [2], strides = [2], ceil_mode = 1}", 0, 0, 0},
    {"onnx.BatchNormalization",
     "float[2,3,4], float[3], float[3], float[3], float[3] {training_mode = 1, momentum = 0.3} => 3", 0.2, 0.9, 0},
    {"onnx.Col2Im", "float[2,12,4], int64[2] = {4, 4}, int64[2] = {2, 3} {strides = [2,1]}", 0, 0, 0},
    {"onnx.Compress", "float[3,2], bool[3] = {1, 0, 1} {axis = 0}", 0, 0, 0},
    {"onnx.Compress", "float[3,2], bool[4] = {0, 1, 1, 1}", 0, 0, 0},
    {"onnx.CenterCropPad", "float[5,4], int64[2] = {2, 7}", 0, 0, 0},
    {"onnx.CenterCropPad", "float[5,4,3], int64[2] = {4, 8} {axes = [2,0]}", 0, 0, 0},
    {"onnx.CumProd", "float[2,4], int64[] = {1} {reverse = 1, exclusive = 1}", 0, 0, 0},
    {"onnx.CumProd", "float[3,2], int64[] = {0}", 0, 0, 0},
    {"onnx.DFT", "float[1,5,1] {onesided = 1}", 0, 0, 0},
    {"onnx.DFT", "float[2,5,2], int64[] = {8}", 0, 0, 0},
    {"onnx.DFT", "float[2,5,2], int64[] = {3}, int64[] = {1} {inverse = 1}", 0, 0, 0},
    {"onnx.DFT", "float[1,4,2], int64[] = {6} {inverse = 1, onesided = 1}", 0, 0, 0},
    {"onnx.STFT", "float[1,10,1], int64[] = {3}, float[4]", 0, 0, 0},
    {"onnx.STFT", "float[2,9,2], int64[] = {2}, float[3], int64[] = {5} {onesided = 0}", 0, 0, 0},
    {"onnx.DeformConv",
     "float[1,4,4,5], float[2,2,2,2], float[1,16,5,4], float[2], float[1,8,5,4] {group = 2, offset_group = 2, pads = "
     "[1,0,1,0]}",
     0, 0, 0},
    {"onnx.DequantizeLinear", "int8[2,3] = {1, 2, 3, -4, 5, 6}, float[3], int8[3] = {1, 0, 2}", 0, 0, 0},
    {"onnx.DequantizeLinear", "int8[2,5] = {1, 2, 3, -4, 5, 6, 7, 8, 9, 1}, float[2,3] {block_size = 2}", 0, 0, 0},
    {"onnx.Det", "float[3,3]", 0, 0, 0},
    {"onnx.Det", "float[2,4,4]", 0, 0, 0},
    {"onnx.Det", "float[1,1]", 0, 0, 0},
    {"onnx.Einsum", "float[3,3], float[2,3,3] {equation = \"ij,...jj->i...\"}", 0, 0, 0},
    {"onnx.Einsum", "float[3,3] {equation = \"ii->\"}", 0, 0, 0},
    {"onnx.Einsum", "float[2,3], float[3] {equation = \"ij,k->k\"}", 0, 0, 0},
    {"onnx.GlobalLpPool", "float[2,3,4] {p = 3}", 0, 0, 0},
    {"onnx.GridSample", "float[1,2,4,5], float[1,3,3,2] {padding_mode = \"reflection\"}", -1.7, 1.7, 0},
    {"onnx.GridSample", "float[1,2,4,5], float[1,3,3,2] {padding_mode = \"reflection\", align_corners = 1}", -1.7, 1.7,
     0},
    {"onnx.GridSample", "float[1,2,4,5], float[1,3,3,2] {padding_mode = \"border\"}", -1.7, 1.7, 0},
    {"onnx.GridSample", "float[1,2,4,5], float[1,3,3,2] {align_corners = 1}", -1.7, 1.7, 0},
    {"onnx.GridSample", "float[1,1,4,5], float[1,3,3,2] {mode = \"cubic\"}", -1.3, 1.3, 0},
    {"onnx.GridSample", "float[1,1,4,5], float[1,3,3,2] {mode = \"cubic\", padding_mode = \"reflection\"}", -1.3, 1.3,
     0},
    {"onnx.GridSample", "float[1,1,4,5], float[1,3,3,2] {mode = \"nearest\", padding_mode = \"border\"}", -1.3, 1.3, 0},
    {"onnx.GridSample", "float[1,1,3,2,3], float[1,2,1,2,3]", -1.3, 1.3, 0},
    {"onnx.GRU", "float[3,2,3], float[1,12,3], float[1,12,4], float[1,24] {linear_before_reset = 1} => 2", 0, 0, 0},
    {"onnx.GRU", "float[3,2,3], float[1,12,3], float[1,12,4], float[1,24], int32[2] = {2, 3}, float[1,2,4] => 2", 0, 0,
     0},
    {"onnx.LinearAttention",
     "float[2,3,8], float[2,3,4], float[2,3,6], float[2,1,4,6], float[2,3,4], float[2,3,1] {q_num_heads = 2, "
     "kv_num_heads = 1} => 2",
     0, 0, 0},
    {"onnx.LpPool", "float[1,2,5,6] {kernel_shape = [3,2], pads = [1,0,0,1], strides = [1,2]}", 0, 0, 0},
    {"onnx.LSTM",
     "float[3,2,3], float[1,16,3], float[1,16,4], float[1,32], int32[2] = {2, 3}, float[1,2,4], float[1,2,4], "
     "float[1,12] "
     "=> 3",
     0, 0, 0},
    {"onnx.LSTM",
     "float[2,3,3], float[2,16,3], float[2,16,4] {direction = \"bidirectional\", layout = 1, input_forget = 1, clip = "
     "0.6, "
     "activations = [\"HardSigmoid\", \"ScaledTanh\", \"Affine\", \"Sigmoid\", \"Softsign\", \"Elu\"], "
     "activation_alpha = [0.3, "
     "0.9, 0.7, 0.8], activation_beta = [0.4, 0.8, 0.1]} => 3",
     0, 0, 0},
    {"onnx.RNN", "float[3,2,3], " RNN_TAIL ", , , float[1,2,4] {direction = \"reverse\"} => 2", 0, 0, 0},
    {"onnx.MaxPool", "float[1,2,6,7] {kernel_shape = [3,2], strides = [2,2], dilations = [1,2], ceil_mode = 1} => 2", 0,
     0, 1e-7},
    {"onnx.MaxRoiPool", "float[2,2,6,6], float[2,5] = {0, 0, 0, 4, 5, 1, 2, 1, 5, 5} {pooled_shape = [2, 2]}", 0, 0,
     1e-7},
    {"onnx.MaxUnpool", "float[1,1,2,2], int64[1,1,2,2] = {5, 7, 13, 15} {kernel_shape = [2, 2], strides = [2, 2]}", 0,
     0, 0},
    {"onnx.MaxUnpool",
     "float[1,1,2,2], int64[1,1,2,2] = {5, 7, 13, 15}, int64[4] = {1, 1, 5, 5} {kernel_shape = [2, 2], strides = [2, "
     "2]}",
     0, 0, 0},
    {"onnx.NegativeLogLikelihoodLoss", "float[3,4], int64[3] = {0, 3, 1}, float[4] {ignore_index = 3}", 0.2, 0.9, 0},
    {"onnx.NegativeLogLikelihoodLoss", "float[2,4,2], int64[2,2] = {0, 3, 1, 2} {reduction = \"none\"}", 0, 0, 0},
    {"onnx.SoftmaxCrossEntropyLoss", "float[3,4], int64[3] = {0, -1, 1}, float[4] {ignore_index = -1} => 2", 0.2, 0.9,
     0},
    {"onnx.SoftmaxCrossEntropyLoss", "float[3,4], int64[3] = {0, 2, 1} {reduction = \"sum\"}", 0, 0, 0},
    {"onnx.OneHot", "int64[3] = {0, 2, -1}, int64[] = {4}, float[2] {axis = 0}", 0, 0, 0},
    {"onnx.Range", "float[], float[] = {9}, float[] = {2}", 0, 0, 0},
    {"onnx.Range", "float[] = {0}, float[] = {10}, float[]", 1.2, 1.4, 0},
    {"onnx.RoiAlign",
     "float[1,2,6,6], float[2,4] = {0.3, 0.2, 4.1, 4.4, 1.6, 1.2, 5.3, 4.7}, int64[2] = {0, 0} {output_height = 2, "
     "output_width = 3, sampling_ratio = 2}",
     0, 0, 0},
    {"onnx.RoiAlign",
     "float[2,1,6,6], float[2,4] = {0.3, 0.2, 4.1, 4.4, 1.6, 1.2, 5.3, 4.7}, int64[2] = {0, 1} {output_height = 2, "
     "output_width = 2, mode = \"max\", spatial_scale = 0.9}",
     0.2, 0.9, 1e-7},
    {"onnx.RotaryEmbedding",
     "float[2,3,12], float[5,2], float[5,2], int64[2,3] = {0, 1, 4, 2, 2, 3} {num_heads = 2, rotary_embedding_dim = 4, "
     "interleaved = 1}",
     0, 0, 0},
    {"onnx.RotaryEmbedding", "float[1,2,3,6], float[1,3,2], float[1,3,2] {rotary_embedding_dim = 4}", 0, 0, 0},
    {"onnx.TensorScatter", "float[2,1,5,2], float[2,1,2,2], int64[2] = {1, 3}", 0, 0, 0},
    {"onnx.TensorScatter", "float[2,5,3], float[2,2,3], int64[2] = {4, 2} {mode = \"circular\", axis = 1}", 0, 0, 0},
    {"onnx.TensorScatter", "float[2,5], float[2,2] {axis = 1}", 0, 0, 0},
    {"ai.onnx.preview.training.Adam",
     "float[], int64[] = {3}, float[3], float[2], float[3], float[2], float[3], float[2], float[3], float[2] "
     "{norm_coefficient = 0.1, norm_coefficient_post = 0.2} => 6",
     0.2, 0.9, 0},
    {"ai.onnx.preview.training.Adagrad",
     "float[], int64[] = {3}, float[3], float[3], float[3] {decay_factor = 0.1} => 2", 0.2, 0.9, 0},
    {"ai.onnx.preview.training.Momentum",
     "float[], int64[] = {0}, float[3], float[3], float[3] {alpha = 0.9, beta = 0.5, norm_coefficient = 0.1, mode = "
     "\"standard\"} => 2",
     0, 0, 0},
    {"ai.onnx.preview.training.Momentum",
     "float[], int64[] = {2}, float[3], float[3], float[3] {alpha = 0.9, beta = 0.5, norm_coefficient = 0.1, mode = "
     "\"nesterov\"} => 2",
     0, 0, 0},
};

static void test_rows(void **state) {
  int bad = 0;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row *w = &rows[i];
    grad_check how = {.seed = i, .low = w->low, .high = w->high, .step = w->step};
    grad_report r;
    op_entry *e = registry_find_op(NULL, w->op, 0);
    if (!e) fail_msg("no op %s", w->op);
    rlx_status status = grad_check_sample(e, w->text, &how, &r);
    op_entry_release(e);
    if (status == RLX_OK && r.passed && r.gradients > 0) continue;
    bad++;
    print_message("%s %s: %s\n", w->op, w->text,
                  status     ? rlx_error_message()
                  : r.passed ? "nothing to compare"
                             : r.what);
  }
  assert_int_equal(bad, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
