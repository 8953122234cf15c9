import jaxtyping
import torch
from hypothesis import settings

# Before anything imports the package.
jaxtyping.install_import_hook("sooner", "shapecheck.shapes_only")

torch.set_num_threads(1)
settings.register_profile("sooner", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("sooner")
