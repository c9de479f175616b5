"""The front end of the current dialect, `nki` 0.6: tensors are shapes, calls are recorded."""
