"""A question, an engine, a posterior. Part of the package ``hybridbn``; import it as ``hybridbn.inference``.

How a question goes through this room
-------------------------------------
`Network.posterior` and its like read the evidence column by column and ask a **question**. It is compiled, once for
each pattern of evidence, to a **problem**. Engines are asked in their order for a **plan**, and the first one that is
cheap enough solves the problem in chunks of distinct rows. What is needed of the **solutions** is collected in an
**answer**, from which **posteriors** are made. A single case in a network of tables takes a short cut: it is compiled
and computed in one pass.

* Evidence (`evidence`): what is known of each variable, over all rows.
* Question (`compilation`): what is asked of a network, without the evidence.
* Snapshot (`relevance`): the potentials of a network at one time, and what follows from them alone.
* Problem (`compilation`): a question compiled for a snapshot and a pattern of evidence: the potentials that matter, an
  axis for each variable, and an elimination order.
* Program (`elimination`): the steps of an elimination, from factors to the tables that are wanted.
* Plan (`engines`): how an engine would solve a problem, and at what cost.
* Solution (`engines`): the tables, axes and log probabilities of some rows.
* Answer (`solutions`): what was kept of the solutions of all rows.
* Posterior (`posteriors`): the distribution of a variable given the evidence, for one case or many.

Where to begin
--------------
What networks offer stands in `queries`, `sampling`, `most_probable`, `explanations` and `interventions`.
The textbook's loop, where readers may begin, is `tests/sum_product.py`; `hybridbn.inference.engines` says how to add an
engine, and `evidence` how to add a kind of evidence.

Doors: `compilation`, `elimination.ordering`, `engines`, `engines.naive_bayes`, `evidence`, `explanations`,
`interventions`, `most_probable`, `posteriors`, `queries`, `sampling`.
"""

if __name__ != "hybridbn.inference":
    raise ImportError("import hybridbn.inference, not inference")
