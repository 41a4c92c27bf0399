"""Workers: programs that run what is submitted, and go on with what stopped, for the partitions assigned to them."""
