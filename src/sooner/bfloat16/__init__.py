"""Detection of CPUs on which products in bfloat16 fail."""

from sooner.bfloat16.probe import Support as Support
from sooner.bfloat16.probe import bfloat16_support as bfloat16_support
from sooner.bfloat16.probe import refuse_bfloat16 as refuse_bfloat16
