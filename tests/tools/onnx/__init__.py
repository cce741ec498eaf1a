"""The node tests of ONNX, each written as a call of the library, compared with the results that ONNX ships."""
