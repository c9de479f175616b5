"""Every NKI instruction declared once: operands, memories, dtypes, limits per generation, cost.

The front ends, the checker, the memory pass, the simulator and the cost model all read
`table.TABLE`.
"""
