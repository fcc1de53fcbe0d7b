"""Reading images: readers, fragments put together, bulk polls into columns."""
