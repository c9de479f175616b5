"""What a kernel imports: front ends that trace calls into a Program and never see data."""
