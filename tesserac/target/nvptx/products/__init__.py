"""Matrix products: stages in shared memory, barriers, mma.sync and wgmma."""
