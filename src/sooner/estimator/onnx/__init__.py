"""The ONNX export of a classifier, and a live stream that runs it without PyTorch."""
