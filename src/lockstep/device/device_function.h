// Marks functions that the CPU's kernels and the CUDA plug-in both compile.
#pragma once

#if defined(__CUDACC__)
#define LOCKSTEP_DEVICE_FUNCTION __host__ __device__
#else
#define LOCKSTEP_DEVICE_FUNCTION
#endif
