"""Scripts that make what the repository holds, such as the numbers of the atlas; a wheel does not have them."""
