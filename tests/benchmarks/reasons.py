"""Reasons why hot paths take more than a few times their floors, by test."""

_REASONS = {
    ("test_prox.py::test_prox",): (
        "A call from Python for few norms; for many, several passes: the threshold of a squared sum"
        " is found by Newton's method, each step of which looks at what is left and compares, and"
        " the result is new memory."
    ),
    ("test_chains.py::test_chain",): (
        "A position waits for the one before, where a product of matrices keeps all its operations"
        " in flight; a maximum has no fused multiply-add; few labels do not fill a register, and"
        " short chains wait for the call."
    ),
    ("test_trees.py::test_chu_liu_edmonds",): (
        "Random scores, unlike a parser's, have cycles upon cycles: each contraction reads the rows"
        " of its tokens, writes a new one and looks for its highest score. All of it is O(n^2), as"
        " the growth shows."
    ),
    ("test_trees.py::test_projective",): (
        "A span waits for its parts, so eight are made at a time and go through the cache, where a"
        " product of matrices keeps blocks in registers. Decoding has three combinations of n^3 / 6"
        " splits, marginals nine."
    ),
    ("test_trees.py::test_matrix_tree",): (
        "Elimination that subtracts nothing, which keeps every digit at any scale of scores, for"
        " the sum and once more for its derivatives."
    ),
    ("test_mkl_solvers.py::test_wrapper",): (
        "The methods' own iterations: each solves an SVM (their number is in the notes) after a"
        " look at all kernels. What takes their place is measured as `3000 kernels`."
    ),
    (
        "test_mkl_solvers.py::test_soft_thresholding",
    ): "The methods' own iterations, each with products of all kernels.",
    ("test_reading.py::test_conllu",): (
        "The floor looks for the ends of lines alone. A reader checks every byte of every cell,"
        " numbers and trees included, and looks six strings a word up in hash tables; shuffling"
        " copies what it holds back."
    ),
    ("test_reading.py::test_sentences_as_lists_of_strings",): (
        "Seven lists of Python strings a sentence: 1.4 million references that are made and"
        " counted."
    ),
    ("test_reading.py::test_writing",): (
        "Each of 200 thousand lines is put together anew: its first cells, a number, a relation,"
        " its last cells."
    ),
    ("test_reading.py::test_a_treebank_of_sentences_made_in_python",): (
        "Python strings are looked at one by one; the floor reads their bytes as if they lay in one"
        " piece."
    ),
    ("test_startup.py::test_startup",): (
        "Importing numpy and tqdm is half of what a help text waits for, our own commands and"
        " argparse are the rest."
    ),
    ("test_batch.py::test_gram_rows_on_demand",): (
        "Three kernels of one product: an exponential and a square of each of its numbers, and"
        " copies to the cache."
    ),
    ("test_streams.py::test_stream",): (
        "The floor copies bytes. Text becomes numbers one by one; strings of Arrow, Python's, one"
        " by one; what is compressed is decompressed; and what is shuffled is copied once more, row"
        " by row."
    ),
    ("test_prediction.py::test_predicting_one_row",): (
        "A row is checked, put into an array and handed from call to call in Python, whatever the"
        " arithmetic: predict rows together where there are several."
    ),
    ("test_prediction.py::test_learning_one_row",): (
        "A round is many calls from Python, with checks of the row and its label before them,"
        " whatever the arithmetic."
    ),
    ("test_prediction.py::test_loading",): (
        "A tagger's features are hashed into a dict for each of 27 keys, and its weights put in"
        " their places; a parser's templates are parsed, and what is put in place is copied to"
        " where cache lines begin. Sums of all bytes are checked."
    ),
    ("test_online.py::test_explicit_groups",): (
        "The columns of each block are cut into ten groups and joined again, and every group is"
        " tested on new rows. A round also measures and shrinks the groups; scikit-learn's SGD has"
        " none."
    ),
    ("test_online.py::test_budget",): (
        "A round scores a row, and where the budget is full finds the support vector that matters"
        " least. To project, it takes that one out of a factor of 1000 x 1000 numbers for each"
        " kernel and the new one in, 8 MB each, and solves with it. The floor has the kernel values"
        " of one row alone."
    ),
    ("test_online.py::test_random_features",): (
        "On a budget, a round evaluates the kernel at every support vector, and finds the one that"
        " matters least."
    ),
    (
        "test_online.py::test_potentials_and_step",
    ): "Potentials, a step and the average each go over the weights, and two calls from Python.",
    ("test_ocr.py::test_ocr_20_epochs",): (
        "Beside the rows of Gram matrices that a mistake adds, each word is decoded by Viterbi in"
        " every epoch, and the round's calls from Python."
    ),
    ("test_ocr.py::test_kernel_rows",): "The exponential of each number of the product.",
    ("test_tagging.py::test_training", "test_tagging.py::test_tagging"): (
        "The features of words are found first, each of 27 by a hash table for each word type. A"
        " weight is then added to the scores of 17 labels, which Viterbi follows, sentence by"
        " sentence."
    ),
    ("test_parsing.py::test_parser_epoch",): (
        "Each weight is fetched to score and once more to be changed, and what is fetched is found"
        " by hashing."
    ),
    ("test_batch.py::test_elastic_net_in_one_step",): (
        "Most kernels are active, and each Newton step sums them all, and a rank-one matrix for"
        " each, beside the two passes over them that the certificates take."
    ),
    ("test_batch.py::test_more_samples",): (
        "Beside its factor, a Newton step sums the active kernels into a matrix, and multiplies the"
        " others for the line search."
    ),
    (
        "test_batch.py::test_a_pass_over_packed_kernels",
        "test_batch.py::test_3000_kernels",
        "test_batch.py::test_more_kernels",
        "test_batch.py::test_kernels_on_each_variable",
        "test_batch.py::test_kernels_computed_in_every_pass",
        "test_batch.py::test_beside_other_programs",
    ): (
        "Passes over all kernels (`full passes`): one for a certificate of the start, and one after"
        " each working set. And Newton steps, a tenth of a pass each with 3000 kernels of 200"
        " samples; few kernels make a pass cheap and steps dear. Larger first working sets mostly"
        " took longer; dropping kernels from them gained a few per cent at most, and sometimes"
        " lost."
    ),
    (
        "test_design.py::test_lasso",
        "test_design.py::test_group_lasso",
        "test_design.py::test_path",
        "test_design.py::test_columns",
        "test_design_kinds.py::test_kind",
    ): (
        "A certificate takes a pass over the design, and so does each working set; sweeps over what"
        " is in it take the rest, and a path has 20 or 100 problems."
    ),
}
REASONS = {test: reason for tests, reason in _REASONS.items() for test in tests}
