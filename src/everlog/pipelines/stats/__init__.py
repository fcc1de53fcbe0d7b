"""Statistics: folds the records of a split and joins the results of splits."""
