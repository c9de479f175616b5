"""Schedules a Program on a chip's engines and DMA queues: latency, use, what bounds it."""
