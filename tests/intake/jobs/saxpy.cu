// The kernel of saxpy.json.
__global__ void saxpy(int n, float a, const float *x, const float *y, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}

void launch(int n, float a, const float *x, const float *y, float *out) {
  saxpy<<<(n + 255) / 256, 256>>>(n, a, x, y, out);
}
