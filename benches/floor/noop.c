/* The cheapest program there is: what a node costs besides its work. */
int main(void) { return 0; }
