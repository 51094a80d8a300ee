"""Plain values that every layer shares: errors, settings, names, the clock. Imports nothing of strom."""
