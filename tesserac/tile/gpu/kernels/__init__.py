"""Passes on kernels before their blocks have layouts: kernels joined, kernels split among programs."""
