"""The paper's model: a peephole LSTM over windows, trained with LSEL and the multiplet loss, compared with the exact scores.

The data are from AR(1) processes, one per class. An observation depends only on the previous one, so order 1 is enough. The exact
scores are known and show how close the model comes.
"""

import torch

from sooner.data import AR1
from sooner.evaluate import sat_curve
from sooner.models import build_model
from sooner.series import Series
from sooner.train import train
from sooner.train.settings import settings_from_dict

process = AR1([-0.6, 0.0, 0.6])
settings = settings_from_dict(
    {
        "model": {"order": 1, "hidden": 24},
        "loss": {"weights": {"multiplet": 1.0, "lsel": 1.0}},  # any of `sooner.losses`, by name
        "optimizer": {"lr": 0.01},
        "training": {"iterations": 300, "validate_every": 50, "batch_size": 100, "device": "cpu"},
    }
)
training, validation = (Series.from_arrays(*process.sample(1000, 40, seed=seed)) for seed in (1, 2))
torch.manual_seed(0)
model = build_model(settings.model, features=training.observations.shape[2:], classes=3)
record = train(model, training, validation, settings)  # folder="run" would write checkpoints and resume from them
print(
    f"{record.steps} steps, best at {record.best.step}: mean accuracy {record.best.metric:.3f} on the validation series"
)

x, labels = process.sample(2000, 40, seed=3)
with torch.no_grad():
    learned = sat_curve(model.eval().scores(x.float()), labels)
exact = sat_curve(process.scores(x), labels)
print("\nbalanced error at a mean time of    3       5      10      20")
for name, curve in (("learned scores", learned), ("exact scores", exact)):
    print(f"{name:<28}", *(f"{error:7.1%}" for error in curve.error_at([3, 5, 10, 20])))

state = model.init(streams=1)  # live: the same scores, one observation at a time
state, newest, _ = model.step(state, x[:1, 0].float())
print(
    f"\na live series takes {model.bytes_per_stream()} bytes; its first scores: {newest[0].detach().numpy().round(2)}"
)
