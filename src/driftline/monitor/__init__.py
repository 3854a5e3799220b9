"""A drift monitor: tables arriving over time, one Record a window, one file that keeps no history."""
