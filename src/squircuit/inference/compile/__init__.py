"""From a circuit and a mask to the steps of a query: structure joined where need be, schedules, weights."""
