"""What the packages of all frameworks share: the world, its process sets, requests, errors. See `cohort` for use."""
