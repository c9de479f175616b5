"""The only judge: check, trace, memory, simulation, comparison and cost give one Verdict."""
