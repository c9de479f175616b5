"""The instruction stream of a traced kernel: records, stored form, validation, overlap, listing."""
