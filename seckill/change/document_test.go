package change

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
	"stampede/seckill/seckillevent"
)

const documents = "/api/v1/admin/activities/by-external-id/"

// put sends a document and requires a status.
func (d *instance) put(want int, id string, doc any) seckilltest.Reply {
	d.T.Helper()
	return d.Do(want, http.MethodPut, documents+url.PathEscape(id), doc)
}

// document reads the document of an external id.
func (d *instance) document(id string) (doc plan.WholeActivity) {
	d.T.Helper()
	require.NoError(d.T, json.Unmarshal(d.Do(http.StatusOK, http.MethodGet, documents+url.PathEscape(id), nil).Raw, &doc))
	return doc
}

// did lists what an answer says was done: "create /sessions/a", "change /sessions/a name".
func did(r seckilltest.Reply) (lines []string) {
	for _, c := range r.Doc["changes"].([]any) {
		m := c.(map[string]any)
		line := fmt.Sprint(m["action"], " ", m["path"])
		if fields, some := m["fields"].([]any); some {
			line += " " + strings.Trim(fmt.Sprint(fields), "[]")
		}
		lines = append(lines, line)
	}
	return lines
}

// flawsOf are the places that a refusal names.
func flawsOf(r seckilltest.Reply) (places []string) {
	list, _ := r.Doc["errors"].([]any)
	for _, e := range list {
		places = append(places, e.(map[string]any)["location"].(string))
	}
	slices.Sort(places)
	return places
}

func soldItem(id, sku string, stock int32) plan.ItemDraft {
	price := wire.Money{Amount: 9900, Currency: "CNY"}
	return plan.ItemDraft{ExternalID: id, SKU: sku, Title: "A " + sku, ListPrice: price, SalePrice: price, Stock: stock}
}

// twoSessions is a document that opens in opensIn, with two items in its first session.
func twoSessions(opensIn time.Duration) plan.WholeActivity {
	opens := time.Now().UTC().Add(opensIn).Truncate(time.Millisecond)
	return plan.WholeActivity{ActivityDraft: plan.ActivityDraft{
		Name: "Sale", StartsAt: opens, EndsAt: opens.Add(4 * time.Hour), Rules: "One each.", Metadata: map[string]string{"erp": "7"},
		LimitPerUser: 1,
		Sessions: []plan.SessionDraft{
			{ExternalID: "morning", Name: "Morning", OpensAt: opens, ClosesAt: opens.Add(time.Hour), Items: []plan.ItemDraft{soldItem("one", "p", 5), soldItem("two", "q", 6)}},
			{ExternalID: "evening", Name: "Evening", OpensAt: opens.Add(2 * time.Hour), ClosesAt: opens.Add(3 * time.Hour), Items: []plan.ItemDraft{soldItem("one", "p", 7)}},
		},
	}}
}

// TestPutDocument follows one sale from its first document to the end of its edits.
func TestPutDocument(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	const id = "erp/2026%11"
	doc := twoSessions(time.Hour)
	dry := documents + url.PathEscape(id) + "?dry_run=true"
	var r seckilltest.Reply
	d.leaves("a dry run of a new activity", nothing, func() { r = d.Do(http.StatusOK, http.MethodPut, dry, doc) })
	created := []string{"create ", "create /sessions/morning", "create /sessions/morning/items/one", "create /sessions/morning/items/two", "create /sessions/evening", "create /sessions/evening/items/one"}
	require.Equal(t, "of a dry run", did(r), created)
	require.Equal(t, "of a dry run", []any{r.Doc["dry_run"], r.Doc["changed"], r.Doc["activity"], r.Doc["preflight"] != nil}, []any{true, true, nil, true})
	require.Equal(t, "activities after a dry run", d.Number(`SELECT count(*) FROM seckill.activities`), int64(0))
	d.Do(http.StatusNotFound, http.MethodGet, documents+url.PathEscape(id), nil)

	d.leaves("the first document", "[activity.create activity.rules session.create item.create item.create session.create item.create activity.plan] and 0 events",
		func() { r = d.put(http.StatusOK, id, doc) })
	require.Equal(t, "of the first document", did(r), created)
	activity := r.ID(t, "activity", "id")
	require.Equal(t, "ids", []any{r.ID(t, "activity", "external_id"), r.ID(t, "activity", "sessions", 0, "items", 1, "external_id")}, []any{id, "two"})
	d.leaves("the document again", nothing, func() { r = d.put(http.StatusOK, id, doc) })
	require.Equal(t, "of the document again", []any{r.Doc["changed"], len(did(r)), r.ID(t, "activity", "id")}, []any{false, 0, activity})
	for version, window := range []string{`"payment_window_seconds":60`, `"payment_window_share":0.5`} { // the seconds stay, without effect
		d.Do(http.StatusOK, http.MethodPatch, "/api/v1/admin/activities/"+activity, fmt.Sprintf(`{"version":%d,%s}`, version+1, window))
		d.leaves("what GET answered", nothing, func() { d.put(http.StatusOK, id, d.document(id)) })
	}
	d.leaves("the default window again", "[activity.edit activity.plan] and 0 events", func() { d.put(http.StatusOK, id, doc) })

	// Items exchange their SKUs, one session goes, another comes, and the draft is published.
	items := doc.Sessions[0].Items
	items[0].SKU, items[1].SKU = "q", "p"
	items[1].Detail = &plan.DetailDraft{Description: "Blue", Images: []string{"/blue.png"}}
	gone := doc.Sessions[1]
	doc.Sessions[1].ExternalID, doc.Sessions[1].Name, doc.Name, doc.Rules, doc.Publish = "night", "Night", "Sale!", "Two each.", true
	d.leaves("the second document", "[session.delete activity.edit activity.rules item.edit item.edit item.detail session.create item.create activity.plan activity.publish] and 1 events",
		func() { r = d.put(http.StatusOK, id, doc) })
	require.Equal(t, "of the second document", did(r), []string{
		"change  name", "change  rules", "change /sessions/morning/items/one sku", "change /sessions/morning/items/two sku", "change /sessions/morning/items/two detail",
		"create /sessions/night", "create /sessions/night/items/one", "remove /sessions/evening", "publish ",
	})
	require.Equal(t, "status", []any{r.Doc["activity"].(map[string]any)["status"], r.Doc["preflight"] != nil}, []any{"scheduled", true})
	d.offPlan("published by its document", 0)
	doc.Publish = false
	d.leaves("the published document again, without publish", nothing, func() { d.put(http.StatusOK, id, doc) })

	// Scheduled: stock and times follow, and the last item stays.
	doc.Sessions[0].Items, doc.Sessions[0].ClosesAt = items[:1], doc.Sessions[0].ClosesAt.Add(time.Minute)
	doc.Sessions[0].Items[0].Stock = 4
	d.leaves("an edit of a scheduled activity", "[item.delete session.edit item.edit activity.plan] and 1 events", func() { d.put(http.StatusOK, id, doc) })
	d.offPlan("edited by its document", 0)
	empty := doc
	empty.Sessions = nil
	r = d.put(http.StatusConflict, id, empty)
	require.Equal(t, "of no session", []any{r.Doc["code"], flawsOf(r)}, []any{"not-editable", []string{"body.sessions"}})

	// Running: names, texts and later ends are corrections; all else is refused at its place.
	d.SQL(`UPDATE seckill.sessions SET opens_at = now() - interval '1 minute' WHERE activity_id = $1 AND external_id = 'morning'`, activity)
	d.SQL(`UPDATE seckill.activities SET starts_at = now() - interval '1 hour' WHERE id = $1`, activity)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+activity+"/pause", nil) // time makes it running
	doc = d.document(id)
	doc.Name, doc.Rules, doc.Sessions[0].ClosesAt = "Sale?", "", doc.Sessions[0].ClosesAt.Add(time.Minute)
	doc.Metadata, doc.Sessions[0].Items[0].Title = nil, "Better"
	d.leaves("a correction", "[activity.edit activity.rules session.edit item.edit activity.plan] and 1 events", func() { d.put(http.StatusOK, id, doc) })
	require.Equal(t, "the corrected document", d.document(id), doc)
	d.offPlan("corrected by its document", 0)
	require.Equal(t, "stock rows that end with their session", d.Number(`SELECT count(*) FROM inventory.stock k JOIN seckill.items i ON i.id = k.item_id
		JOIN seckill.sessions s ON s.id = i.session_id WHERE k.closes_at = s.closes_at`), d.Number(`SELECT count(*) FROM seckill.items`))
	wrong := d.document(id)
	wrong.LimitPerUser, wrong.Sessions[0].OpensAt, wrong.Sessions[0].Items[0].Stock = 2, wrong.Sessions[0].OpensAt.Add(time.Second), 99
	wrong.Sessions[1] = gone
	wrong.Sessions[0].Items = append(wrong.Sessions[0].Items, soldItem("three", "three", 1))
	d.leaves("a refused document", nothing, func() { r = d.put(http.StatusConflict, id, wrong) })
	require.Equal(t, "of a running activity", []any{r.Doc["code"], flawsOf(r)}, []any{"not-editable", []string{
		"body.limit_per_user", "body.sessions", "body.sessions[0].items[0].stock", "body.sessions[0].items[1]", "body.sessions[0].opens_at", "body.sessions[1]",
	}})
	require.Equal(t, "what to do about the stock", strings.Contains(fmt.Sprint(r.Doc["errors"]), `/stock {"add":95}`), true)
	require.Equal(t, "the document after a refusal", d.document(id), doc)
}

// TestDocumentFlaws lists all that is wrong at once, each at its place.
func TestDocumentFlaws(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	doc := twoSessions(time.Hour)
	doc.ExternalID = "other"
	doc.Sessions[1].ExternalID, doc.Sessions[1].ClosesAt = "morning", doc.EndsAt.Add(time.Hour)
	doc.Sessions[0].Items[0].ExternalID, doc.Sessions[0].Items[1].SKU, doc.Sessions[1].Items[0].Stock = "", "p", 0
	doc.Sessions[0].Metadata = map[string]string{"": "no key", "long": "a\x01b"}
	r := d.put(http.StatusUnprocessableEntity, "mine", doc)
	require.Equal(t, "flaws", flawsOf(r), []string{
		"body.external_id", "body.sessions[0].items[0].external_id", "body.sessions[0].items[1].sku", "body.sessions[0].metadata", "body.sessions[0].metadata",
		"body.sessions[1].closes_at", "body.sessions[1].external_id", "body.sessions[1].items[0].stock",
	})
	doc = twoSessions(time.Hour)
	doc.Publish, doc.Sessions[1].Items = true, nil
	require.Equal(t, "a session without items", flawsOf(d.put(http.StatusUnprocessableEntity, "mine", doc)), []string{"body.sessions[1]"})
	d.put(http.StatusUnprocessableEntity, "with a space", doc)
	d.put(http.StatusUnprocessableEntity, strings.Repeat("x", 65), doc)
	d.put(http.StatusOK, strings.Repeat("/", 64), twoSessions(time.Hour))
	if got := d.As(auth.Viewer, http.MethodPut, documents+"x", doc).Status; got != http.StatusForbidden {
		t.Errorf("a viewer's document: %d", got)
	}
}

// TestExternalIDsOfSingleRoutes sets, clears and refuses them one row at a time.
func TestExternalIDsOfSingleRoutes(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Draft(time.Hour, func(a, session, item map[string]any) {
		a["external_id"], session["external_id"], item["external_id"] = "a", "s", "i"
		item["metadata"] = map[string]any{"k": "v"}
	})
	admin := "/api/v1/admin/"
	other := d.Draft(time.Hour)
	r := d.Do(http.StatusOK, http.MethodGet, admin+"items/"+s.Item, nil)
	require.Equal(t, "an item", []any{r.Doc["external_id"], r.Doc["metadata"]}, []any{"i", map[string]any{"k": "v"}})
	r = d.Do(http.StatusOK, http.MethodGet, admin+"items/"+other.Item, nil)
	require.Equal(t, "an item without", []any{r.Doc["external_id"], r.Doc["metadata"]}, []any{nil, map[string]any{}})
	r = d.Do(http.StatusUnprocessableEntity, http.MethodPatch, admin+"activities/"+other.Activity, `{"version":1,"external_id":"a"}`)
	require.Equal(t, "a taken id", flawsOf(r), []string{"body.external_id"})
	d.Do(http.StatusUnprocessableEntity, http.MethodPost, admin+"sessions", map[string]any{
		"activity_id": s.Activity, "external_id": "s", "name": "x", "opens_at": time.Now().Add(time.Hour), "closes_at": time.Now().Add(2 * time.Hour),
	})
	item := `{"session_id":"` + s.Session + `","sku":"x","title":"x","stock":1,"external_id":"i","list_price":{"amount":1,"currency":"CNY"},"sale_price":{"amount":1,"currency":"CNY"}}`
	require.Equal(t, "a taken id", flawsOf(d.Do(http.StatusUnprocessableEntity, http.MethodPost, admin+"items", item)), []string{"body.external_id"})
	r = d.Do(http.StatusOK, http.MethodPatch, admin+"items/"+s.Item, `{"version":1,"external_id":"","metadata":{}}`)
	require.Equal(t, "a cleared item", []any{r.Doc["external_id"], r.Doc["metadata"], r.Doc["version"]}, []any{nil, map[string]any{}, 2.0})
	r = d.Do(http.StatusCreated, http.MethodPost, admin+"activities/"+s.Activity+"/clone", `{"shift_days":1}`)
	require.Equal(t, "a clone", []any{r.Doc["external_id"], r.Doc["sessions"].([]any)[0].(map[string]any)["external_id"]}, []any{nil, "s"})
	day := time.Now().Add(72 * time.Hour).Format(time.DateOnly) // in whichever zone, more than a day after the session
	r = d.Do(http.StatusOK, http.MethodPost, admin+"sessions/"+s.Session+"/repeat", `{"last_day":"`+day+`","extend_activity":true}`)
	for _, made := range r.Doc["created"].([]any) {
		require.Equal(t, "a repeated session", made.(map[string]any)["external_id"], any(nil))
	}
	require.Equal(t, "sessions with the id", d.Number(`SELECT count(*) FROM seckill.sessions WHERE activity_id = $1 AND external_id = 's'`, s.Activity), int64(1))
	over := map[string]any{}
	for i := range 21 {
		over[strconv.Itoa(i)] = ""
	}
	for what, metadata := range map[string]map[string]any{
		"21 keys": over, "a long key": {strings.Repeat("k", 41): ""}, "a long value": {"k": strings.Repeat("v", 501)}, "a number": {"k": 1},
	} {
		if got := d.As(auth.Operator, http.MethodPatch, admin+"sessions/"+s.Session, map[string]any{"version": 1, "metadata": metadata}).Status; got != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", what, got)
		}
	}
	delete(over, "0")
	over[strings.Repeat("钥", 40)] = strings.Repeat("值", 500)
	delete(over, "1")
	d.Do(http.StatusOK, http.MethodPatch, admin+"sessions/"+s.Session, map[string]any{"version": 1, "metadata": over})
}

// TestConcurrentDocuments sends different documents of one new id at once: all succeed, one
// activity exists, and it is what one of them says.
func TestConcurrentDocuments(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	const writers = 8
	docs := make([]plan.WholeActivity, writers)
	replies := make([]seckilltest.Reply, writers)
	var all sync.WaitGroup
	for i := range docs {
		docs[i] = twoSessions(time.Hour)
		docs[i].Name = fmt.Sprint("of writer ", i)
		docs[i].Sessions = docs[i].Sessions[i%2:]
		docs[i].Sessions[0].Items[0].Stock = int32(i) + 1
		all.Go(func() { replies[i] = d.As(auth.Operator, http.MethodPut, documents+"x", docs[i]) })
	}
	all.Wait()
	for i, r := range replies {
		if r.Status != http.StatusOK {
			t.Errorf("writer %d: %d %s", i, r.Status, r.Raw)
		}
	}
	require.Equal(t, "activities", d.Number(`SELECT count(*) FROM seckill.activities`), int64(1))
	now := d.document("x")
	var writer int
	_, err := fmt.Sscanf(now.Name, "of writer %d", &writer)
	require.NoError(t, err)
	d.leaves("the document of the last writer", nothing, func() { d.put(http.StatusOK, "x", docs[writer]) })
}

// TestOvertakenDocument sends a document of an id that another request takes each time.
func TestOvertakenDocument(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	d.SQL(`CREATE FUNCTION always_taken() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN RAISE unique_violation USING CONSTRAINT = 'activities_external_id_key'; END$$`)
	d.SQL(`CREATE TRIGGER taken BEFORE INSERT ON seckill.activities FOR EACH ROW EXECUTE FUNCTION always_taken()`)
	r := d.put(http.StatusServiceUnavailable, "x", twoSessions(time.Hour))
	require.Equal(t, "refusal", []any{r.Doc["code"], r.Doc["detail"]}, []any{"unavailable", errOvertaken.Detail[0]})
}

// TestLastDocumentHolds applies random documents in sequence: each leaves exactly what it
// says or, refused, what was there; parts keep their ids as long as documents name them; a
// dry run tells what happens then, and a repetition does nothing.
func TestLastDocumentHolds(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	base, run := time.Now().UTC().Add(24*time.Hour).Truncate(time.Hour), 0
	traces := func() int64 {
		return d.Number(`SELECT (SELECT count(*) FROM platform.audit) + (SELECT count(*) FROM platform.outbox) + (SELECT coalesce(sum(revision), 0) FROM seckill.activities)::bigint`)
	}
	rapid.Check(t, func(rt *rapid.T) {
		run++
		id := fmt.Sprint("run-", run)
		last, parts := "", map[string]string{}
		for range rapid.IntRange(2, 4).Draw(rt, "documents") {
			doc := drawDocument(rt, base)
			path := documents + id
			var dry, r seckilltest.Reply
			before := traces()
			dry = d.As(auth.Operator, http.MethodPut, path+"?dry_run=true", doc)
			if left := traces() - before; left != 0 {
				rt.Fatalf("a dry run left %d records", left)
			}
			r = d.As(auth.Operator, http.MethodPut, path, doc)
			if dry.Status != r.Status || r.Status == http.StatusOK && fmt.Sprint(did(dry)) != fmt.Sprint(did(r)) {
				rt.Fatalf("a dry run: %s\nthe document: %s", dry.Raw, r.Raw)
			}
			if r.Status == http.StatusOK {
				last = canonical(rt, doc, last)
				now := partsOf(r.Doc["activity"].(map[string]any))
				for name, was := range parts {
					if is, kept := now[name]; kept && is != was {
						rt.Fatalf("%s was %s and is %s", name, was, is)
					}
				}
				parts = now
				before := traces()
				again := d.As(auth.Operator, http.MethodPut, path, doc)
				if left := traces() - before; left != 0 || again.Doc["changed"] != false {
					rt.Fatalf("the document again left %d records: %s", left, again.Raw)
				}
			}
			if last == "" {
				continue
			}
			if got := canonical(rt, d.document(id), last); got != last {
				rt.Fatalf("after %d %s the document is\n%s, not\n%s", r.Status, r.Raw, got, last)
			}
		}
		d.offPlan("after all documents", 0)
	})
}

// drawDocument draws documents that share their parts' ids.
func drawDocument(t *rapid.T, base time.Time) plan.WholeActivity {
	text := rapid.SampledFrom([]string{"A", "B", "C"})
	metadata := rapid.SampledFrom([]map[string]string{nil, {"a": "1"}, {"a": "2", "b": ""}})
	seconds := rapid.SampledFrom([]*int32{nil, new(int32(60)), new(int32(1200))})
	doc := plan.WholeActivity{Publish: rapid.IntRange(0, 4).Draw(t, "publish") == 0}
	doc.ActivityDraft = plan.ActivityDraft{
		Name: text.Draw(t, "name"), StartsAt: base, EndsAt: base.Add(time.Duration(rapid.IntRange(10, 12).Draw(t, "hours")) * time.Hour),
		LimitPerUser: rapid.Int32Range(1, 2).Draw(t, "limit"), OneItemPerUser: rapid.Bool().Draw(t, "one"), PaymentWindowSeconds: seconds.Draw(t, "seconds"),
		Rules: rapid.SampledFrom([]string{"", "Rules"}).Draw(t, "rules"), Metadata: metadata.Draw(t, "metadata"),
		Checkout: seckillevent.CheckoutView{Asked: seckillevent.Asked{Note: rapid.SampledFrom([]seckillevent.Ask{"", seckillevent.Required}).Draw(t, "note")}},
	}
	if doc.PaymentWindowSeconds == nil && rapid.Bool().Draw(t, "share") {
		doc.PaymentWindowShare = new(0.5)
	}
	some := func(of ...string) []string {
		return rapid.Permutation(of).Draw(t, "order")[:rapid.IntRange(0, len(of)).Draw(t, "some")]
	}
	for _, id := range some("s1", "s2", "s3") {
		opens := base.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "opens")) * time.Hour)
		session := plan.SessionDraft{ExternalID: id, Name: text.Draw(t, "name"), OpensAt: opens, ClosesAt: opens.Add(time.Hour), Metadata: metadata.Draw(t, "metadata")}
		if rapid.Bool().Draw(t, "reserved") {
			session.ReservationOpensAt, session.ReservationClosesAt = new(opens.Add(-2*time.Hour)), new(opens.Add(-time.Hour))
			session.ReservationCap = rapid.SampledFrom([]float64{0, 2}).Draw(t, "cap")
		}
		skus := rapid.Permutation([]string{"p", "q", "r"}).Draw(t, "skus")
		for i, id := range some("i1", "i2", "i3") {
			item := soldItem(id, skus[i], rapid.Int32Range(1, 3).Draw(t, "stock"))
			item.Title, item.Metadata = text.Draw(t, "title"), metadata.Draw(t, "metadata")
			item.Backup, item.LimitPerUser = rapid.Int32Range(0, 1).Draw(t, "backup"), rapid.Int32Range(0, 1).Draw(t, "limit")
			if rapid.Bool().Draw(t, "unlimited") {
				item.Unlimited, item.Stock, item.Backup = true, 0, 0
			}
			if rapid.Bool().Draw(t, "detailed") {
				item.Detail = &plan.DetailDraft{Description: text.Draw(t, "description"), Images: []string{}}
			}
			session.Items = append(session.Items, item)
		}
		doc.Sessions = append(doc.Sessions, session)
	}
	return doc
}

// canonical is a document with its defaults, its parts in the order of their ids; once it
// was published it stays so.
func canonical(t *rapid.T, doc plan.WholeActivity, before string) string {
	doc.Publish = doc.Publish || strings.Contains(before, `"publish":true`)
	doc.ExternalID = ""
	if doc.PaymentWindowSeconds == nil && doc.PaymentWindowShare == nil {
		doc.PaymentWindowSeconds = new(int32(900))
	}
	doc.RebuyAfterClose = new(doc.RebuyAfterClose != nil && *doc.RebuyAfterClose)
	doc.HumanCheck, doc.RefundUnits = "none", "return"
	doc.Sessions = slices.SortedFunc(slices.Values(doc.Sessions), func(a, b plan.SessionDraft) int { return strings.Compare(a.ExternalID, b.ExternalID) })
	for i := range doc.Sessions {
		s := &doc.Sessions[i]
		s.Items = slices.SortedFunc(slices.Values(s.Items), func(a, b plan.ItemDraft) int { return strings.Compare(a.ExternalID, b.ExternalID) })
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// partsOf are the ids of an activity's parts by their external ids.
func partsOf(activity map[string]any) map[string]string {
	parts := map[string]string{}
	sessions, _ := activity["sessions"].([]any)
	for _, s := range sessions {
		session := s.(map[string]any)
		name := fmt.Sprint(session["external_id"])
		parts[name] = fmt.Sprint(session["id"])
		items, _ := session["items"].([]any)
		for _, i := range items {
			item := i.(map[string]any)
			parts[fmt.Sprint(name, "/", item["external_id"])] = fmt.Sprint(item["id"])
		}
	}
	return parts
}
