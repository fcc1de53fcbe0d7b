"""Plans: what is to be changed in a store, as steps in crash-safe order.

A plan is shown first and applied later. Reading and verifying never change a byte; a plan does only when it is applied.
Its steps are in an order in which a crash after any of them leaves the store no worse than before, and planning again
finishes the work. A step (:mod:`~everlog.core.plan.step`) says what it changes, checks that the files are as they were
when it was planned (:mod:`~everlog.core.plan.changed`), applies the change, and says what a crash leaves. Replaced
bytes go to a backup (:mod:`~everlog.core.plan.backup`).
"""
