"""GPU kernels in Triton, one operation a file; each has a plain torch twin that serves everywhere else."""
