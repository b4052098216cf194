"""Sum-product elimination: orders, programs of table operations, and the executor that runs them on evidence."""
