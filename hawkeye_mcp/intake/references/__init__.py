"""What a reference says of itself: kernels in CUDA, Triton or Pallas, read as text and never executed."""
