"""What is done with whole stores in one Spark job: verify, export, compare. ``everlog spark`` runs them."""
