"""The files of a new workload: a small one that passes the check, with comments that say what to change."""

PYTHON = '''\
"""What to compute, in plain JAX. Agents see everything here but create_inputs and oracle."""

import jax
import jax.numpy as jnp


def create_inputs(key, size):
    """The inputs for one seed. Draw in float32 and cast, so that the values of a bfloat16 input are not biased."""
    key_x, key_weight, key_bias = jax.random.split(key, 3)
    x = jax.random.normal(key_x, (size["M"], size["K"]))
    # Scaled by the length of the contraction, so that results have the same size whatever the size is.
    weight = jax.random.normal(key_weight, (size["K"], size["N"])) * size["K"] ** -0.5
    # Large enough to show: a part whose absence the gate cannot see is not tested.
    bias = jax.random.normal(key_bias, (size["N"],)) * 0.5
    return x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16), bias.astype(jnp.bfloat16)


def workload(x, weight, bias):
    """The computation that kernels replace; compiled by XLA it is the baseline. Shapes come from the arguments."""
    return jax.nn.relu(jnp.dot(x, weight) + bias)


def oracle(x, weight, bias):
    """The same in float32 at the highest precision, written from the definition; returns float32."""
    x, weight, bias = (array.astype(jnp.float32) for array in (x, weight, bias))
    return jnp.maximum(jnp.dot(x, weight, precision=jax.lax.Precision.HIGHEST) + bias, 0)
'''

TOML = """\
# What the workload is; `hawkeye workloads check ./{name}/` says whether its test can tell right from wrong.
family = "matmul and elementwise"
summary = "relu(x @ weight + bias)."
source = "written here"
# Useful floating-point operations at the full size, and the same as a formula of its dimensions.
flops = 34359738368
flops_formula = "2*M*K*N"
# Bytes of all inputs and outputs at the full size, each once.
least_bytes = 41947136

# Kernels are timed at the full size and verified at the check size, which should run in about a second on a CPU.
[sizes]
full = {{ M = 4096, K = 2048, N = 2048 }}
check = {{ M = 256, K = 512, N = 768 }}

# In the order of the arguments; a dimension is a number or a name from the sizes.
[[inputs]]
name = "x"
shape = ["M", "K"]
dtype = "bfloat16"

[[inputs]]
name = "weight"
shape = ["K", "N"]
dtype = "bfloat16"

[[inputs]]
name = "bias"
shape = ["N"]
dtype = "bfloat16"

[[outputs]]
name = "out"
shape = ["M", "N"]
dtype = "bfloat16"

# E: the norm of the error over that of the oracle less its mean over axis 0; R: the worst row's error over its norm.
# The limit lies above what an honest bfloat16 program scores and below every wrong one; the check prints both.
[tolerance]
metric = "E"
limit = 0.02
reason = "The check prints what the honest program and the wrong ones score."

# The baseline's time is predicted from two shorter sizes of one dimension along which it is linear.
[baseline]
axis = "M"
at = [512, 1024]

# Matrix multiplications and convolutions outside Pallas are rejected unless they are allowed here.
# [outside]
# allow = ["stablehlo.convolution"]
# reason = "what is to be sped up is the rest"

# A wrong program that the check cannot catch, if you know why that is no fault of the test.
# [[survives]]
# mutant = "add 1: operand 0 alone"
# reason = "why"
"""


def files(name: str) -> dict[str, str]:
    """The texts of a new workload's files by their names."""
    return {"workload.py": PYTHON, "workload.toml": TOML.format(name=name)}
