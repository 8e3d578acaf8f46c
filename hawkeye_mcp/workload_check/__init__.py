"""The audit of the tests themselves: can a workload tell a right kernel from a wrong one?"""
