"""`.sooner` files: a fitted `EarlyClassifier` as safetensors with a JSON header. Loading one never executes code."""

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sooner.container import ContainerFormat, seal, unseal
from sooner.data.standardizer import Standardizer
from sooner.errors import InvalidArgument
from sooner.estimator.learning import OWN, Learned, own_model
from sooner.estimator.promises import restore_promise, written_promise
from sooner.evaluate.posterior import PosteriorCalibration
from sooner.models import Model, Rocket, build_model
from sooner.rules.described import description, rule_described
from sooner.scores import Scored
from sooner.series.columns import Columns
from sooner.storage import write_whole
from sooner.train.settings import ModelSettings, changed, to_dict
from sooner.train.upgrade import recorded_settings

if TYPE_CHECKING:
    from sooner.estimator.classifier import EarlyClassifier

FORMAT, VERSION = "sooner.model", 1
_HERE = {"training.engine": "local", "training.workers": 1}
_PLAIN = (str, int, float, bool, type(None))


def save(classifier: "EarlyClassifier", path: str | PathLike[str]) -> None:
    """Write the classifier; a file that is there already is replaced in one move."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(classifier)
    target = refuse_no_place(path)
    standard = classifier.standardizer_
    about = {
        "parameters": _parameters(classifier),
        "classes": _names(classifier.classes_),
        "class_counts": classifier.class_counts_.tolist(),
        "columns": None if classifier.columns_ is None else _named(classifier.columns_),
        "model_name": classifier.model_name_,
        "model": _model_about(classifier.model_, classifier),
        "settings": None if classifier.settings_ is None else to_dict(classifier.settings_),
        "mask_channels": standard.mask_channels,
        "rule": description(classifier.rule_),
        "training": dict(classifier.training_),
        "promise": written_promise(classifier),
        "posterior": None if classifier.posterior_calibration_.plain else asdict(classifier.posterior_calibration_),
        "versions": {package: version(package) for package in ("sooner", "torch")},
    }
    rule_described(about["rule"])  # a rule that could not be read back is refused now, not when it is needed
    tensors = {
        **{f"model.{name}": tensor for name, tensor in classifier.model_.state_dict().items()},
        "standardizer.mean": torch.as_tensor(standard.mean),
        "standardizer.scale": torch.as_tensor(standard.scale),
        **_arrays("held_out", classifier.held_out_),
        **({} if classifier.calibration_ is None else _arrays("calibration", classifier.calibration_)),
        "training_hashes": torch.from_numpy(classifier.training_hashes_),
    }
    write_whole(target, seal(_kind(target), about, tensors))


def refuse_no_place(path: str | PathLike[str]) -> Path:
    """The path of a file that can be written: its folder is there, and it is no folder itself."""
    target = Path(path)
    if not target.name or target.is_dir():
        raise InvalidArgument("path", "the name of a file", f"the folder {target}", "Name the file: model.sooner.")
    if not target.parent.is_dir():
        remedy = "Make the folder first."
        raise InvalidArgument("path", "in a folder that is there", str(target), remedy)
    return target


def load(path: str | PathLike[str], model: Any = None) -> "EarlyClassifier":
    """Read a classifier from a `.sooner` file, with its threshold, its held-out scores and its training record.

    Args:
        path: the file.
        model: only for a file with a model of your own, because the file contains its weights but not its code: the `model` that
            was passed to `EarlyClassifier(model=...)`.
    """
    from sooner.estimator.classifier import EarlyClassifier

    target = Path(path)
    if not target.is_file():
        remedy = "`EarlyClassifier.save` and `sooner train` write one."
        raise InvalidArgument("path", "a .sooner file", f"{target}, which is not there", remedy)
    about, tensors = unseal(_kind(target), target.read_bytes())
    parameters = dict(about["parameters"])
    if parameters["settings"] is not None:
        parameters["settings"] = recorded_settings(parameters["settings"])
    if about["model_name"] == OWN:
        parameters["model"] = _given(model, about["model"]["class"])
    classifier = EarlyClassifier(**parameters)
    classes = np.array(about["classes"]["values"], dtype=about["classes"]["type"])
    fitted = _model(about["model"], len(classes), parameters["model"])
    try:
        fitted.load_state_dict(_under("model.", tensors))
    except RuntimeError as error:
        got = " ".join(str(error).split())[:160]
        raise InvalidArgument(
            "model", "one that the weights of the file fit", got, "Give the one it was saved with."
        ) from None
    held = _scored("held_out", tensors)
    mean, scale = (tensors[f"standardizer.{part}"].numpy() for part in ("mean", "scale"))
    settings = None if about["settings"] is None else recorded_settings(about["settings"])
    standardizer = Standardizer(mean, scale, about["mask_channels"])
    posterior = PosteriorCalibration(**(about.get("posterior") or {}))  # files of earlier versions have none
    learned = Learned(about["model_name"], fitted.eval(), settings, standardizer, held, about["training"], posterior)
    columns = None if about["columns"] is None else Columns(**about["columns"])
    classifier.adopt(learned, classes, np.array(about["class_counts"]), columns)
    classifier.rule_ = classifier.rule_named_by(rule_described(about["rule"]))
    classifier.calibration_ = _scored("calibration", tensors) if "calibration.scores" in tensors else None
    if "training_hashes" in tensors:  # not in files of earlier versions
        classifier.training_hashes_ = tensors["training_hashes"].numpy()
    restore_promise(classifier, about.get("promise"))
    return classifier


def _kind(path: Path) -> ContainerFormat:
    remedy = "Copy it again from where it was written, or train anew."
    return ContainerFormat(path.name, "a model of sooner", FORMAT, VERSION, remedy)


def _parameters(classifier: "EarlyClassifier") -> dict[str, Any]:
    """The constructor's arguments; what belongs to one machine or one run is left at its default."""
    given = classifier.get_params(deep=False)
    seed, priors, loss = given["random_state"], given["priors"], given["loss"]
    if isinstance(priors, Mapping):
        priors = [priors[name] for name in classifier.classes_.tolist()]
    if not given["calibration_share"]:
        del given["calibration_share"]  # so that earlier versions read the file
    return {
        **{name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()},
        **({"model": OWN} if classifier.model_name_ == OWN else {}),
        "random_state": int(seed) if isinstance(seed, int | np.integer) else None,
        "priors": priors if isinstance(priors, str) else np.asarray(priors, dtype=np.float64).tolist(),
        "loss": dict(loss) if isinstance(loss, Mapping) else loss,
        "settings": None if given["settings"] is None else to_dict(changed(given["settings"], _HERE)),
        **{key.rpartition(".")[2]: value for key, value in _HERE.items()},
        "folder": None,
        "verbose": int(given["verbose"]),
    }


def _named(columns: Columns) -> dict[str, Any]:
    """The columns by their parts. Where the channels are named nothing has to be ignored, and older versions can read it."""
    parts = asdict(columns)
    if not parts["ignore"] or parts["channels"] is not None:
        del parts["ignore"]
    return parts


def _names(classes: npt.NDArray[Any]) -> dict[str, Any]:
    values = classes.tolist()
    strange = [value for value in values if not isinstance(value, _PLAIN)]
    if strange:
        remedy = "Turn the labels into text or numbers before `fit`."
        raise InvalidArgument("classes", "texts or numbers to be saved", f"a {type(strange[0]).__name__}", remedy)
    return {"type": classes.dtype.str if classes.dtype != object else "O", "values": values}


def _model_about(model: Model, classifier: "EarlyClassifier") -> dict[str, Any]:
    """What `_model` needs to make the model again, but for its weights."""
    if isinstance(model, Rocket):
        shape = {"checkpoints": list(model.evaluation_times), "dilations": list(model.running.dilations)}
        return {"features": list(model.features), **shape, "thresholds": model.running.limits.shape[-1]}
    if classifier.model_name_ == OWN:
        return {"features": list(model.features), "class": type(model).__qualname__}
    if classifier.settings_ is None:
        remedy = 'Its parts could only be pickled. Models "rocket" and "recurrent" can be saved.'
        raise InvalidArgument("model", "one that is made of tensors to be saved", type(model).__name__, remedy)
    return {"features": list(model.features), "settings": to_dict(classifier.settings_)["model"]}


def _given(model: Any, name: str) -> Any:
    if model is None:
        remedy = f"The file has its weights, not its code: sooner.load(path, model={name})."
        raise InvalidArgument("model", f"given, as the file holds your own {name}", "None", remedy)
    return model


def _model(about: Mapping[str, Any], classes: int, given: Any) -> Model:
    features = tuple(about["features"])
    if "class" in about:
        return own_model(given, features, classes)
    if "checkpoints" in about:
        return Rocket(
            features,
            classes,
            evaluation_times=about["checkpoints"],
            dilations=about["dilations"],
            thresholds=about["thresholds"],
        )
    # A file without `batch_norm` has the one of its time, which is the default.
    return build_model(ModelSettings(**about["settings"]), features, classes, log_prior=np.zeros(classes))


def _arrays(name: str, scored: Scored) -> dict[str, Tensor]:
    arrays = {field: array for field, array in vars(scored).items() if array is not None}
    return {f"{name}.{field}": torch.from_numpy(array) for field, array in arrays.items()}


def _scored(name: str, tensors: Mapping[str, Tensor]) -> Scored:
    return Scored(**{field: tensor.numpy() for field, tensor in _under(f"{name}.", tensors).items()})


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
