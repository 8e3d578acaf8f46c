"""From the one source of each row to the cells of every chip, and what the judge and the compiler say of them."""
