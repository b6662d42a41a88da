"""The line of a merge: clauses, resolve, plan, prune, execute, commit, report.

Each step takes the frozen result of the one before.
"""
