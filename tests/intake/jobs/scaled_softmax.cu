// Softmax of a scaled row, one block for each row: a donor of ideas for scaled_softmax.json.
#include <cuda_runtime.h>

#define THREADS 256

__global__ void scaled_softmax(const float *x, float *out, float scale, int columns) {
  __shared__ float partial[THREADS];
  const float *row = x + (size_t)blockIdx.x * columns;
  float *result = out + (size_t)blockIdx.x * columns;

  float largest = -INFINITY;
  for (int i = threadIdx.x; i < columns; i += THREADS) largest = fmaxf(largest, row[i] * scale);
  partial[threadIdx.x] = largest;
  __syncthreads();
  for (int step = THREADS / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + step]);
    __syncthreads();
  }
  largest = partial[0];
  __syncthreads();

  float total = 0.f;
  for (int i = threadIdx.x; i < columns; i += THREADS) total += __expf(row[i] * scale - largest);
  partial[threadIdx.x] = total;
  __syncthreads();
  for (int step = THREADS / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
    __syncthreads();
  }
  total = partial[0];

  for (int i = threadIdx.x; i < columns; i += THREADS) result[i] = __expf(row[i] * scale - largest) / total;
}

void launch(const float *x, float *out, float scale, int rows, int columns) {
  scaled_softmax<<<rows, THREADS>>>(x, out, scale, columns);
}
