"""What the web SDK calls beside V1: the products of a web page, and its checkout."""
