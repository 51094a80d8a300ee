"""What all HTTP servers of strom share."""
