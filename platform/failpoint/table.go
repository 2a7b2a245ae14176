package failpoint

// The points, each in exactly one place of the code. Those made with mayFail stand
// where an error can be returned; at the others there is nobody left to fail to.
var (
	AfterLua = mayFail("after-lua",
		"Redis has granted a batch, and its message is not published yet.")
	AfterPublish = mayFail("after-publish",
		"A batch's message is stored, and nobody in it has an answer yet.")
	Before202 = define("before-202",
		"A shopper is in line and about to be told so.")
	AfterCommit = define("after-commit",
		"The order writer has committed, and neither Redis nor the relay nor NATS knows.")
	BeforeAck = define("before-ack",
		"The order writer has committed and told Redis, and its messages are not acknowledged yet.")
	OrdersClosed = mayFail("orders-closed",
		"Orders are closed in Postgres, and the release of their units has not left the outbox.")
	AfterPayment = mayFail("after-payment",
		"A capture is written down, and neither its provider nor anybody else has been told.")
	LoadFenced = mayFail("load-fenced",
		"A Load has stopped its item and has not read the books yet.")
	LoadCounted = mayFail("load-counted",
		"A Load has raised the epoch in Postgres, and Redis does not have the new keys yet.")
	LoadWritten = mayFail("load-written",
		"A Load has written the keys of the new epoch, and the state that opens the item does not name them yet.")
	RelayPublished = mayFail("relay-published",
		"The outbox relay has published a window and not marked its rows.")
)

// table has every point in the order above; define fills it.
var table []*Point

func define(name, about string) *Point {
	p := &Point{name: name, about: about}
	table = append(table, p)
	return p
}

func mayFail(name, about string) *Point {
	p := define(name, about)
	p.fails = true
	return p
}

// Points lists the table.
func Points() []*Point { return append([]*Point(nil), table...) }
