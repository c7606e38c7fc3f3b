"""Makes test cases of models that scikit-learn trained and skl2onnx exported, with what ONNX Runtime answers.

Usage: tools/ml_cases.py FOLDER. Needs scikit-learn and skl2onnx beside the packages of requirements.txt. The cases
tests/models/learn_* are some of them.
"""

import pathlib
import sys
import warnings

import numpy as np
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DictionaryType, FloatTensorType, Int64TensorType, StringTensorType
from sklearn import (
    compose,
    datasets,
    decomposition,
    ensemble,
    feature_extraction,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

import cases

ROWS = 12


def numbers(classes, seed=0, features=5):
    x, y = datasets.make_classification(
        n_samples=60, n_features=features, n_informative=4, n_redundant=0, n_classes=classes, random_state=seed
    )
    return x.astype(np.float32), y


def names(y):
    return np.array(["zero", "one", "two", "three"], dtype=object)[y]


def classifiers():
    x2, y2 = numbers(2)
    x3, y3 = numbers(3)
    small = dict(n_estimators=4, max_depth=3, random_state=0)
    for label, make in (
        ("logistic", lambda: linear_model.LogisticRegression()),
        ("forest", lambda: ensemble.RandomForestClassifier(**small)),
        ("extra_trees", lambda: ensemble.ExtraTreesClassifier(**small)),
        ("boosting", lambda: ensemble.GradientBoostingClassifier(**small)),
        ("histogram", lambda: ensemble.HistGradientBoostingClassifier(max_iter=4, max_depth=3)),
        ("tree", lambda: tree.DecisionTreeClassifier(max_depth=3)),
        ("svc_rbf", lambda: svm.SVC()),
        ("svc_probability", lambda: svm.SVC(probability=True, random_state=0)),
        ("svc_poly", lambda: svm.SVC(kernel="poly", degree=2)),
        ("svc_sigmoid", lambda: svm.SVC(kernel="sigmoid", probability=True, random_state=0)),
        ("svc_linear", lambda: svm.SVC(kernel="linear", decision_function_shape="ovo")),
        ("nusvc", lambda: svm.NuSVC(nu=0.3)),
        ("linear_svc", lambda: svm.LinearSVC()),
        ("bayes", lambda: naive_bayes.GaussianNB()),
        ("neighbours", lambda: neighbors.KNeighborsClassifier(3)),
        ("network", lambda: neural_network.MLPClassifier((6,), max_iter=50, random_state=0)),
        ("adaboost", lambda: ensemble.AdaBoostClassifier(n_estimators=3, random_state=0)),
    ):
        yield f"{label}_2", make().fit(x2, y2), x2
        yield f"{label}_3", make().fit(x3, y3), x3
        yield f"{label}_names", make().fit(x3, names(y3)), x3


def regressors():
    x, _ = numbers(2)
    y = x @ np.arange(1, 6) + 0.3
    both = np.stack([y, -y + x[:, 0]], axis=1)
    small = dict(n_estimators=4, max_depth=3, random_state=0)
    for label, model, target in (
        ("linear_regression", linear_model.LinearRegression(), y),
        ("ridge_targets", linear_model.Ridge(), both),
        ("forest_regression", ensemble.RandomForestRegressor(**small), y),
        ("forest_targets", ensemble.RandomForestRegressor(**small), both),
        ("boosting_regression", ensemble.GradientBoostingRegressor(**small), y),
        ("histogram_regression", ensemble.HistGradientBoostingRegressor(max_iter=4, max_depth=3), y),
        ("svr", svm.SVR(), y),
        ("nusvr", svm.NuSVR(kernel="poly"), y),
    ):
        yield label, model.fit(x, target), x
    yield "one_class", svm.OneClassSVM(nu=0.2).fit(x), x
    yield "isolation", ensemble.IsolationForest(n_estimators=3, max_samples=16, random_state=0).fit(x), x


def transformers():
    x, _ = numbers(2)
    holes = x.copy()
    holes[::4, 1] = np.nan
    words = np.array([["red", "S"], ["blue", "M"], ["red", "L"], ["green", "M"]] * 4)
    whole = np.array([[1, 5], [2, 6], [3, 5], [1, 7]] * 4, dtype=np.int64)
    yield "scaler", preprocessing.StandardScaler().fit(x), x
    yield "min_max", preprocessing.MinMaxScaler().fit(x), x
    for norm in ("l1", "l2", "max"):
        yield f"normalizer_{norm}", preprocessing.Normalizer(norm).fit(x), np.abs(x) if norm == "max" else x
    yield "binarizer", preprocessing.Binarizer(threshold=0.25).fit(x), x
    yield "imputer", impute.SimpleImputer().fit(holes), holes
    yield "one_hot_words", preprocessing.OneHotEncoder(handle_unknown="ignore").fit(words), words
    yield "one_hot_numbers", preprocessing.OneHotEncoder(handle_unknown="ignore").fit(whole), whole
    yield "ordinal_words", preprocessing.OrdinalEncoder().fit(words), words
    yield "bins", preprocessing.KBinsDiscretizer(3, encode="onehot-dense", quantile_method="linear").fit(x), x
    yield "pca", decomposition.PCA(3).fit(x), x
    yield "polynomial", preprocessing.PolynomialFeatures(2).fit(x), x


def convert(model, x):
    options = {}
    if x.dtype.kind == "U":
        kind = StringTensorType([None, x.shape[1]])
    else:
        kind = (Int64TensorType if x.dtype == np.int64 else FloatTensorType)([None, x.shape[1]])
    return to_onnx(model, initial_types=[("X", kind)], options=options, target_opset={"": 18, "ai.onnx.ml": 3})


def answers(model, feeds):
    results = cases.session(model.SerializeToString()).run(None, feeds)
    return [as_float32(r) for r in results]


def as_float32(value):
    """ONNX Runtime gives maps of Python's floats."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [{k: np.float32(v) for k, v in row.items()} for row in value]
    return value


def write(folder, name, model, inputs):
    names = [i.name for i in model.graph.input]
    outputs = answers(model, dict(zip(names, inputs)))
    cases.write_case(folder / name, model, [(inputs, outputs)])


def mixed():
    """A pipeline over columns of words and of numbers, and what comes of dictionaries."""
    x, y = numbers(2)
    rows = x[:16, :2]
    words = np.array(["red", "blue", "green", "red"] * 4)
    table = {"word": words.reshape(-1, 1), "number": rows[:, :1], "other": rows[:, 1:2]}
    import pandas as pd

    frame = pd.DataFrame({k: v[:, 0] for k, v in table.items()})
    columns = compose.ColumnTransformer(
        [
            ("words", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["word"]),
            ("numbers", preprocessing.StandardScaler(), ["number", "other"]),
        ]
    )
    model = pipeline.Pipeline([("columns", columns), ("classify", linear_model.LogisticRegression())])
    model.fit(frame, y[:16])
    types = [
        ("word", StringTensorType([None, 1])),
        ("number", FloatTensorType([None, 1])),
        ("other", FloatTensorType([None, 1])),
    ]
    yield "columns", to_onnx(model, initial_types=types, target_opset={"": 18, "ai.onnx.ml": 3}), list(table.values())
    rows = [{"a": 1.0, "b": 2.0}, {"b": 3.0, "c": 0.5}]
    vectorizer = feature_extraction.DictVectorizer(sparse=False).fit(rows)
    kind = DictionaryType(StringTensorType([1]), FloatTensorType([1]))
    yield "dictionary", to_onnx(vectorizer, initial_types=[("X", kind)], target_opset={"": 18, "ai.onnx.ml": 3}), [
        {"b": np.float32(3.0), "c": np.float32(0.5)}
    ]


def main():
    folder = pathlib.Path(sys.argv[1])
    warnings.simplefilter("ignore")
    for source in (classifiers, regressors, transformers):
        for name, model, x in source():
            try:
                write(folder, name, convert(model, x), [x[:ROWS]])
            except Exception as error:  # an exporter that cannot is no test
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}")
    try:
        for name, model, inputs in mixed():
            write(folder, name, model, inputs)
    except Exception as error:
        print(f"mixed: {type(error).__name__}: {str(error)[:300]}")


if __name__ == "__main__":
    main()
