"""Facts of CUDA sources, from their text alone."""

import pytest

from hawkeye_mcp.intake.references import cuda_facts, cuda_tree
from hawkeye_mcp.intake.references.expressions import Scope
from hawkeye_mcp.intake.references.mechanisms import Found
from hawkeye_mcp.intake.references.text import ReferenceUnreadable


def read(source: str) -> tuple[cuda_facts.Cuda, Found]:
    found = Found()
    return cuda_facts.read(source, found), found


def mechanisms(source: str) -> dict[str, list[int]]:
    _, found = read(source)
    return {one.name: [place.line for place in one.places] for one in found.mechanisms()}


def in_kernel(body: str, before: str = "") -> str:
    return f"{before}\n__global__ void k(float *x, int n, int stage, float m) {{\n{body}\n}}\n"


GEMM = """\
#include <mma.h>
#define BM 64
#define STAGES 2
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
enum Warps { ROWS = 2, COLUMNS };
static constexpr int BK = BM / 4;  // sixteen
template <typename T, int N>
__global__ void __launch_bounds__(256) gemm(const half *__restrict__ a, T *c, int m) {
  __shared__ half tile[STAGES][BM][BK + 8];
  extern __shared__ float rest[];
  wmma::fragment<wmma::matrix_a, 16, 16, BK, half, wmma::row_major> left;
  int stage = 0;
  for (int k = 0; k < 512; k += BK) {
    tile[stage][threadIdx.y][threadIdx.x] = a[k];
    __syncthreads();
    wmma::mma_sync(c, left, left, c);
    stage ^= 1;
  }
}
void launch(int m) {
  const int threads = 32 * ROWS * COLUMNS;
  dim3 grid(CEIL_DIV(1000, BM), 4), moved(1);
  moved.x = 3;
  int rows = (m + BM - 1) / BM;
  gemm<float, 4><<<grid, threads, 2 * BM * sizeof(float)>>>(a, c, m);
  gemm<float, 4><<<dim3(rows, 2), moved>>>(a, c, m);
}
"""


def test_a_kernel_with_its_signature_and_lines():
    (kernel,) = read(GEMM)[0].kernels
    assert (kernel.name, kernel.line, kernel.end_line) == ("gemm", 8, 19)
    assert kernel.signature.startswith("template <typename T, int N> __global__ void")
    assert [(one.name, one.type) for one in kernel.parameters] == [
        ("a", "const half *__restrict__"),
        ("c", "T *"),
        ("m", "int"),
    ]


def test_launches_are_resolved_as_far_as_the_text_goes():
    first, second = read(GEMM)[0].launches
    assert (first.kernel, first.line, first.grid_text) == ("gemm<float, 4>", 25, "grid")
    assert [one.value for one in first.grid] == [16, 4]
    assert [(one.text, one.value) for one in first.block] == [("threads", 192)]
    assert first.shared_bytes.value == 512
    assert [(one.text, one.value) for one in second.grid] == [("rows", None), ("2", 2)]
    assert (second.block, second.block_text) == (None, "moved")


def test_constants_with_their_values():
    found = {one.name: (one.kind, one.value, one.line) for one in read(GEMM)[0].constants}
    assert found["BM"] == ("define", 64, 2)
    assert found["BK"] == ("constexpr", 16, 6)
    assert (found["ROWS"][1], found["COLUMNS"]) == (2, ("enum", 3, 5))


def test_shared_memory_and_the_matrix_unit():
    cuda, found = read(GEMM)
    static, extern = cuda.memory
    assert (static.name, static.type, static.bytes, static.kernel, static.line) == ("tile", "half", 6144, "gemm", 9)
    assert [dim.value for dim in static.dims] == [2, 64, 24]
    assert (extern.kind, extern.name, extern.bytes, extern.line) == ("extern", "rest", None, 10)
    assert [(one.instruction, one.shape, one.line) for one in found.matrix] == [
        ("wmma::fragment", "16x16x16", 11),
        ("wmma::mma_sync", None, 16),
    ]
    seen = mechanisms(GEMM)
    assert seen["double_buffering"] == [9, 17]
    assert seen["bank_conflict_padding"] == [9]
    assert {"shared_memory_tiling", "dynamic_shared_memory", "block_synchronisation"} <= set(seen)


# name, what shows it, and the same without it
SHOWN = [
    ("warp_shuffle", "m += __shfl_down_sync(0xffffffff, m, 16);", "m += shuffled(m, 16);"),
    ("warp_vote", "if (__any_sync(~0u, n)) return;", "if (any(n)) return;"),
    ("atomics", "atomicAdd(x, 1.f);", "x[0] += 1.f;"),
    ("atomics", 'asm volatile("red.global.add.f32 [%0], %1;" :: "l"(x), "f"(m));', 'asm volatile("add.f32 %0, %1;");'),
    ("asynchronous_copy", "__pipeline_memcpy_async(x, x, 16);", "memcpy(x, x, 16);"),
    ("asynchronous_copy", 'asm("cp.async.cg.shared.global [%0], [%1], 16;");', 'asm("ld.shared.f32 %0, [%1];");'),
    ("bulk_tensor_copy", 'asm("cp.async.bulk.tensor.2d.shared::cluster.global [%0];");', 'asm("ld.f32 %0, [%1];");'),
    ("vectorised_access", "float4 v = *reinterpret_cast<const float4 *>(x);", "float4 v = wide(x);"),
    ("vectorised_access", "float4 v = *(float4 *)x;", "float v = (float)n;"),
    ("register_tiling", "float acc[4][8] = {0.f};", "float acc = 0.f;"),
    ("persistent_kernel", "for (int t = blockIdx.x; t < n; t += gridDim.x) x[t] = m;", "for (int t = 0; t < n; t++) x[t] = m;"),
    ("grid_stride_loop", "int s = blockDim.x * gridDim.x;\nfor (int i = n; i < n; i += s) x[i] = m;", "for (int i = n; i < n; i += 4) ;"),
    ("split_k", "for (int k = blockIdx.z * 8; k < n; k += 8) m += x[k];", "for (int k = 0; k < n; k += 8) m += x[k];"),
    ("split_k", "int splitK = 4;", "int parts = 4;"),
    ("block_reduction", "__shared__ float s[64];\nfor (int i = 32; i > 0; i >>= 1) s[n] += s[n + i];", "__shared__ float s[64];\nfor (int i = 0; i < 32; i++) s[n] += s[n + i];"),
    ("swizzled_layout", "__shared__ float s[64];\nx[0] = s[n ^ 3];", "__shared__ float s[64];\nx[0] = s[n + 3];"),
    ("grid_synchronisation", "auto g = cg::this_grid();", "auto g = cg::this_thread_block();"),
    ("thread_block_cluster", "auto c = cg::this_cluster();", "auto c = cluster;"),
    ("memory_barrier_object", 'asm("mbarrier.init.shared.b64 [%0], %1;");', 'asm("mov.u32 %0, %1;");'),
    ("memory_fence", "__threadfence();", "fence();"),
    ("warp_specialisation", 'asm("setmaxnreg.inc.sync.aligned.u32 240;");', 'asm("mov.u32 %0, 240;");'),
    ("loop_unrolling", "#pragma unroll\nfor (int i = 0; i < 4; i++) x[i] = m;", "for (int i = 0; i < 4; i++) x[i] = m;"),
    ("fast_math", "m = __expf(m);", "m = expf(m);"),
    ("read_only_cache", "m = __ldg(x);", "m = load(x);"),
    ("random_numbers", "m = curand_uniform(x);", "m = uniform(x);"),
    ("library_primitives", "cub::BlockReduce<float, 128>::Sum(m);", "mine::BlockReduce::Sum(m);"),
    ("inline_assembly", 'asm("brev.b32 %0, %1;");', "m = 1.f;"),
    ("dynamic_parallelism", "k<<<1, 32>>>(x, n, stage, m);", "k(x, n, stage, m);"),
    ("matrix_unit", 'asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0}, {%1};");', 'asm("fma.rn.f32 %0, %1;");'),
    (
        "online_softmax",
        "for (int i = 0; i < n; i++) { float old = m; m = fmaxf(m, x[i]); float c = expf(old - m); x[0] = x[0] * c + 1; }",
        "for (int i = 0; i < n; i++) { m = fmaxf(m, x[i]); }\nfor (int i = 0; i < n; i++) x[0] += expf(x[i] - m);",
    ),
    (
        "online_softmax",
        "for (int i = 0; i < n; i++) { float old = m; m = fmaxf(m, x[i]); float c = expf(old - m); x[0] = x[0] * c + 1; }",
        "for (int i = 0; i < n; i++) { m = fmaxf(m, 0.f); float c = expf(m - x[i]); x[0] = x[0] * c + 1; }",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shown", "without"), SHOWN, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(SHOWN)])
def test_a_mechanism_is_seen_where_it_is_and_nowhere_else(name, shown, without):
    lines = mechanisms(in_kernel(shown))[name]
    assert all(3 <= line < 3 + len(shown.splitlines()) for line in lines)
    assert name not in mechanisms(in_kernel(without))


@pytest.mark.parametrize(
    "hidden",
    [
        "// {}",
        "/* {} */",
        'printf("{}");',
        'R"({})";',
        "#if 0\n{}\n#endif",
        "#if 1\n#else\n{}\n#endif",
        "#if 0\n#elif 0\n{}\n#endif",
    ],
)
@pytest.mark.parametrize("code", ["atomicAdd(x, 1.f);", "__shared__ float s[2][4];", "k<<<1, 2>>>(x);"])
def test_what_is_no_code_is_no_evidence(hidden, code):
    source = in_kernel(hidden.replace("{}", code))
    assert mechanisms(source) == {}
    cuda, _ = read(source)
    assert (len(cuda.kernels), cuda.launches, cuda.memory) == (1, [], [])


def test_a_kernel_in_a_comment_is_none():
    cuda, _ = read('// __global__ void a() {}\nconst char *s = "__global__ void b() {}";\n__global__ void c();\n')
    assert cuda.kernels == []


def test_what_else_of_an_if_is_code():
    assert mechanisms(in_kernel("#if 0\n#else\natomicAdd(x, 1.f);\n#endif")) == {"atomics": [5]}


def test_code_in_macros_is_evidence_on_its_own_line():
    source = (
        '#define CP(d, s) \\\n  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(d)) // no atomicAdd(x)\n'
    )
    assert mechanisms(source) == {"asynchronous_copy": [2]}
    cuda, _ = read("#define GO(k) \\\n  k<<<2, 64>>>(x)\n")
    assert [(one.kernel, one.line) for one in cuda.launches] == [("k", 2)]


def test_the_shape_of_an_instruction():
    _, found = read(in_kernel('asm("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0};");'))
    assert [(one.shape, one.kernel) for one in found.matrix] == [("64x128x16", "k")]
    _, found = read("using Op = MMA_Atom<SM80_16x8x16_F32F16F16F32_TN>;")
    assert [one.shape for one in found.matrix] == ["16x8x16"]
    _, found = read("void f() { wmma::fragment<wmma::accumulator, M, N, K, float> c; }")
    assert [one.shape for one in found.matrix] == [None]


def test_attributes_and_macros_before_a_kernel_do_not_hide_it():
    source = "template <int N>\nLAUNCH_BOUNDS_2(threads(), 4)\n__global__ void a() {}\n"
    source += 'extern "C" __global__ void b() { extern __shared__ __align__(16) char raw[]; }\n'
    source += "static __device__ __forceinline__ float c(float x) { return x; }\n"
    cuda, _ = read(source)
    assert [(kernel.name, kernel.line) for kernel in cuda.kernels] == [("a", 3), ("b", 4)]
    assert [(one.name, one.type) for one in cuda.memory] == [("raw", "char")]


def test_a_name_that_is_set_twice_is_not_settled():
    source = (
        "#define A 1\n#define A 2\nvoid f(int n) { int t = 64; t = 128; int u = 32; k<<<A, t>>>(); k<<<u, 1>>>(); }"
    )
    first, second = read(source)[0].launches
    assert ([one.value for one in first.grid], [one.value for one in first.block]) == ([None], [None])
    assert [one.value for one in second.grid] == [32]
    hidden = "constexpr int T = 64;\nvoid f(int n) { int T = n; k<<<1, T>>>(); }\nvoid g() { k<<<1, T>>>(); }"
    hidden += "void h(int T) { k<<<1, T>>>(); }"
    assert [one.block[0].value for one in read(hidden)[0].launches] == [None, 64, None]


def test_a_launch_by_the_runtime():
    source = "void f() { dim3 g(4, 2); cudaLaunchKernel((void *)k, g, dim3(32), args, 1024, s); }"
    (launch,) = read(source)[0].launches
    assert (launch.kernel, [one.value for one in launch.grid], launch.block[0].value) == ("k", [4, 2], 32)
    assert launch.shared_bytes.value == 1024


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(1000 + N - 1) / N", 63),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("(int)(N) * 2u", 32),
        ("static_cast<int>(N)", 16),
        ("N * sizeof(float4)", 256),
        ("up(33, N)", 48),
        ("std::min(N, 3)", 3),
        ("1 << 3", 8),
        ("0x10UL", 16),
        ("N ? 1 : 2", None),
        ("N / 0", None),
        ("1 << 70", None),
        ("ITSELF", None),
        ("unknown + 1", None),
        ("__import__('os')", None),
        ("9" * 400, None),
        ("-" * 399 + "1", None),
    ],
)
def test_expressions(text, value):
    scope = Scope({"N": "16", "ITSELF": "ITSELF + 1"}, {"up": (("a", "b"), "(a + b - 1) / b * b")})
    assert scope.value(text) == value


def test_functions_that_grow_without_end_come_to_nothing():
    functions = {f"f{i}": (("a",), f"f{i + 1}(a) + f{i + 1}(a)") for i in range(38)} | {"f38": (("a",), "a")}
    assert Scope(functions=functions).value("f0(1)") is None
    assert Scope(functions=functions).value("f36(1)") == 4


HOSTILE = {
    "braces": "{" * 1_000_000,
    "brackets": "(" * 1_000_000,
    "chevrons": "<<<" * 60_000,
    "declarations": "__global__ void k() {" + "__shared__ int a[2][3];" * 30_000,
    "macros": "#define A(x) x(x)\n" * 50_000,
    "loops": "__global__ void k() {" + "for (;; i >>= 1) { x *= y;" * 3_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_long_or_fails_otherwise_than_in_words(name):
    """A text of a million signs is read or refused; what ends it is a count of parts, or of seconds."""
    refusals = []
    try:
        read(HOSTILE[name])
    except ReferenceUnreadable as error:
        refusals = [error]
    assert all(one.kind in ("too_complex", "too_slow") and "Cut it down" in str(one) for one in refusals)


def test_a_text_that_cannot_be_parsed_in_time_is_refused(monkeypatch):
    monkeypatch.setattr(cuda_tree, "_PARSE_S", -1.0)
    with pytest.raises(ReferenceUnreadable, match="could not be parsed within"):
        read(GEMM * 200)
