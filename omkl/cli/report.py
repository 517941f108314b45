"""``omkl report``: write an HTML page about a saved model and its quality on data."""

from __future__ import annotations

from omkl import reports
from omkl._files import replacing
from omkl.cli import options as opt
from omkl.cli.files import labelled_data, load_model, naming
from omkl.cli.options import Options, option
from omkl.data.blocks import n_rows


@opt.command(
    "report",
    *(opt.MODEL, opt.argument("data", type=opt.READ, required=False)),
    option("-o", "--output", type=opt.WRITE, default="-", metavar="FILE", help="HTML file to write."),
    option("--title", metavar="TEXT", help="Heading of the page; by default the class of the model."),
    option("--worst", type=opt.COUNT, default=10, metavar="N", help="Show the N examples with the worst mistakes."),
    *(opt.DATA, opt.JOBS, opt.METRICS),
)
def report(options: Options) -> None:
    """Write a self-contained HTML page about the saved MODEL.

    The page shows what the model has learned, and how it was trained. With a file DATA of held-out data, it also shows
    scores by label, relation and length, calibration, and explanations of the worst mistakes. Plots need omkl[plot].

    Examples:
      omkl report labeler.npz test.crfsuite -o report.html
      omkl report parser.npz test.conllu -o report.html --title "English, gold tags"
      omkl report classifier.npz test.csv --target species -o report.html
      omkl report model.npz > report.html                 # what the model says of itself
    """
    model, kind = load_model(options)
    X = y = None
    if options.data is None:
        opt.refuse("is about labelled data: name a file of them", *opt.OF_DATA)
    with naming(options.data or options.model):
        if options.data is not None:
            X, y = labelled_data(options.data, model, kind, options)
            if kind == "rows":
                X, y = X.read()
        page = reports.make_report(model, X, y, title=options.title, n_worst=options.worst)
    if options.output == "-":
        print(page, end="")
    else:
        with replacing(options.output) as file:
            file.write(page)
    name, n = type(model).__name__, None if X is None else n_rows(X)
    on = "" if n is None else f" on {n} {'sentences' if kind in ('trees', 'annotations') else kind}"
    metrics = {"class": name, "examples": n, "output": options.output, "bytes": len(page.encode())}
    options.report([f"Report on {name}{on}: {options.output}"], metrics)
