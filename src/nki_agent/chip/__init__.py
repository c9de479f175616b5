"""Facts of gen2 (Trn1, Inf2), gen3 (Trn2) and gen4 (Trn3) as data; every number has a source."""
