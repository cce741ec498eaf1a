"""The data of the GPU dialect: its operations, types and verifiers, layouts of registers and of shared memory."""
