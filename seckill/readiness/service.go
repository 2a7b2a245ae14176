// Package readiness is the preflight of a sale: what an operator should know of the plan
// and of the servers before it opens. It changes nothing; what would make the sale fail
// is a stop, and publication refuses the plan's own.
package readiness

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/base/clock"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
	"stampede/platform/store/pg"
	"stampede/platform/watch/preflight"
	"stampede/platform/watch/tally"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
	"stampede/seckill/rush"
	"stampede/seckill/seckillevent"
)

// Deps are what a preflight looks at; all are required unless they say otherwise.
type Deps struct {
	DB      *pgxpool.Pool
	Standby *pg.Standby // reads what past sales counted; nil: there is none
	Clock   clock.Clock
	// Servers are the checks beside the plan's.
	Servers []preflight.Check
	// Images fetches items' images. Nil fetches from the Internet, and from no private
	// address.
	Images *outbound.Client
}

// Service runs preflights. Safe for concurrent use.
type Service struct {
	cfg  plan.Config
	deps Deps
}

// New returns the service; it reads nothing yet.
func New(cfg plan.Config, deps Deps) *Service {
	if deps.Images == nil {
		deps.Images = outbound.New(outbound.Config{Peer: "images", Timeout: imageTimeout, Attempts: 1, MaxBytes: 1, Public: true, MaxConns: imagesAtOnce})
	}
	return &Service{cfg: cfg, deps: deps}
}

type askPreflight struct {
	operator.ByID
	Shoppers int `query:"shoppers" minimum:"1" maximum:"100000000" doc:"How many are expected at the opening" example:"50000"`
}

// Routes registers the preflight.
func (s *Service) Routes(api httpx.API) {
	op := operator.Read(operator.Base+"/activities/{id}/preflight", "preflight-activity", "Whether the plan and the servers are ready for the activity")
	op.Description = "Changes nothing and takes 3 s at most. A stop would make the sale fail. Publication refuses those of the codes plan and provider, and answers with the other lines above ok."
	httpx.Register(api, op, func(ctx context.Context, in *askPreflight) (*operator.Body[plan.PreflightView], error) {
		return operator.Answer(in.ID, func(id int64) (plan.PreflightView, error) {
			a, err := plan.Read(ctx, s.deps.DB, id)
			if err != nil {
				return plan.PreflightView{}, err
			}
			return s.Preflight(ctx, a, s.deps.Clock.Now(), in.Shoppers), nil
		})
	})
}

// planned is an activity's plan at a moment.
type planned struct {
	*plan.Activity
	s  *Service
	at time.Time
}

// Preflight runs the plan's checks and the servers'.
func (s *Service) Preflight(ctx context.Context, a *plan.Activity, at time.Time, shoppers int) plan.PreflightView {
	p := &planned{a, s, at}
	need := preflight.Need{Units: p.units(), Shoppers: shoppers}
	lines := preflight.Run(ctx, need, append(p.checks(), s.deps.Servers...))
	return plan.PreflightView{
		ActivityID: wire.ID(a.ID), At: wire.Time(at), Level: lines[0].Level, Units: need.Units, Shoppers: shoppers, Lines: lines,
	}
}

// A check that looks at the plan alone.
func ofPlan(look func() []preflight.Finding) func(context.Context, preflight.Need) ([]preflight.Finding, error) {
	return func(context.Context, preflight.Need) ([]preflight.Finding, error) { return look(), nil }
}

// checks are the plan's: what each looks at, and what an operator does about it.
func (p *planned) checks() []preflight.Check {
	return []preflight.Check{
		{
			Code: "plan", Titles: fault.T("Contents of the plan", "活动内容"),
			Next: fault.T("Correct what this line names: the sale cannot be published as it is.", "请按说明修改，否则活动无法发布。"),
			Look: ofPlan(func() []preflight.Finding { return stops(p.Complete(p.s.cfg, p.at)) }),
		},
		{
			Code: "opening", Titles: fault.T("Opening", "开抢时间"), Look: ofPlan(p.opening),
			Next: fault.T("Move the session if shoppers need more time to hear of it.", "顾客可能来不及得知，必要时请推迟场次。"),
		},
		{
			Code: "shop-hours", Titles: fault.T("Hour of the opening", "开抢时段"), Look: ofPlan(p.hours),
			Next: fault.T("Check the hour and the shop's time zone (--time-zone).", "核对开抢时间和店铺时区（--time-zone）。"),
		},
		{
			Code: "price", Titles: fault.T("Prices", "价格"), Look: ofPlan(p.prices),
			Next: fault.T("Check the price in minor units: 19900 is 199.00.", "核对价格，单位是最小货币单位：19900 即 199.00。"),
		},
		{
			Code: "provider", Titles: fault.T("Ways to pay", "付款方式"),
			Next: fault.T("Set up a payment provider or lengthen the payment window; the detail says which.", "配置支付渠道，或延长付款时限，详见说明。"),
			Look: ofPlan(func() []preflight.Finding { return stops(p.Payable(p.s.cfg)) }),
		},
		{
			Code: "handover", Titles: fault.T("Delivery", "配送"), Look: ofPlan(p.handover),
			Next: fault.T("Require the address in the activity's rules, before it is published.", "发布前，请在活动规则中将收货地址设为必填。"),
		},
		{
			Code: "reservations", Titles: fault.T("Reservations", "预约"), Look: p.reservations,
			Next: fault.T("Shoppers without a reservation cannot take part: announce it, or open the session to all.",
				"未预约的顾客不能参加：请宣传预约，或取消预约要求。"),
		},
		{
			Code: "capacity", Titles: fault.T("Expected shoppers", "预计人数"), Look: p.capacity,
			Next: fault.T("Practise with that many: `stampede rush --item ID --shoppers N`. Then add instances, or set an "+
				"admission rate so that shoppers are answered in turn.",
				"先用同样的人数演练：`stampede rush --item ID --shoppers N`；再增加实例，或设置放行速率让顾客依次得到答复。"),
		},
		{
			Code: "images", Titles: fault.T("Images", "图片"), Look: p.images,
			Next: fault.T("Open the image's address in a browser without a login, and correct it.", "在未登录的浏览器中打开图片地址并改正。"),
		},
	}
}

// units are those on sale at one opening: the largest session's.
func (p *planned) units() (most int64) {
	sums := map[int64]int64{}
	for session, item := range p.Items() {
		if !item.Unlimited {
			sums[session.ID] += int64(plan.UnitsOnSale(item)) + int64(item.Backup)
		}
		most = max(most, sums[session.ID])
	}
	return most
}

// stops turns what publication refuses into findings.
func stops(f plan.Flaws) (found []preflight.Finding) {
	for _, flaw := range f {
		found = append(found, preflight.Finding{Level: preflight.Stop, Subject: flaw.Location, Found: flaw.Says})
	}
	return found
}

// openingSoon is the time that shoppers need to learn of a session, and an operator
// to act on what a preflight finds.
const openingSoon = 10 * time.Minute

func (p *planned) opening() (found []preflight.Finding) {
	for i := range p.Sessions {
		session := &p.Sessions[i].SeckillSession
		left := session.OpensAt.Sub(p.at)
		f := preflight.Finding{Level: preflight.OK, Subject: plan.SessionSubject(session.ID)}
		switch {
		case session.ClosesAt.Before(p.at) && p.Status == plan.StatusDraft: // the plan's contents list it as a blocker
			continue
		case session.ClosesAt.Before(p.at):
			f.Found = fault.T(`Session "{name}" is over.`, "场次“{name}”已结束。", "name", session.Name)
		case left <= 0 && p.Status == plan.StatusDraft:
			f.Level, f.Found = preflight.Warning, fault.T(`Session "{name}" has opened: it sells as soon as it is published.`,
				"场次“{name}”已到开抢时间，发布后立即开售。", "name", session.Name)
		case left <= 0:
			f.Found = fault.T(`Session "{name}" is open.`, "场次“{name}”正在进行。", "name", session.Name)
		case left < openingSoon:
			f.Level, f.Found = preflight.Warning, fault.T(`Session "{name}" opens in {left}.`,
				"场次“{name}”将在 {left} 后开抢。", "name", session.Name, "left", left.Round(time.Second))
		default:
			f.Found = fault.T(`Session "{name}" opens at {at}.`, "场次“{name}”于 {at} 开抢。",
				"name", session.Name, "at", session.OpensAt.In(p.s.cfg.Zone()).Format(time.DateTime))
		}
		found = append(found, f)
	}
	return found
}

// The hours of the shop's clock in which shoppers are awake: sales open on the full
// hour from 8:00 to 24:00.
const firstHour = 8

func (p *planned) hours() (found []preflight.Finding) {
	for i := range p.Sessions {
		session := &p.Sessions[i].SeckillSession
		if at := session.OpensAt.In(p.s.cfg.Zone()); at.Hour() < firstHour {
			found = append(found, preflight.Finding{
				Level: preflight.Warning, Subject: plan.SessionSubject(session.ID),
				Found: fault.T(`Session "{name}" opens at {at} in {zone}.`, "场次“{name}”于 {at} 开抢（{zone}）。",
					"name", session.Name, "at", at.Format("15:04"), "zone", p.s.cfg.TimeZone),
			})
		}
	}
	return found
}

// steepest is the share of the list price below which a sale price is more often a
// slipped decimal point than an offer.
const steepest = 10 // percent

func (p *planned) prices() (found []preflight.Finding) {
	for _, item := range p.Items() {
		var says fault.Text
		sale, list := orderevent.Money{Amount: item.SalePrice, Currency: item.Currency}, orderevent.Money{Amount: item.ListPrice, Currency: item.Currency}
		switch {
		case item.ListPrice == 0: // a gift
			continue
		case item.SalePrice == 0:
			says = fault.T(`"{item}" is free; its list price is {list}.`, "“{item}”为 0 元，原价 {list}。", "item", item.Title, "list", list)
		case item.SalePrice < item.ListPrice*steepest/100:
			says = fault.T(`"{item}" costs {price}, less than {percent} % of its list price {list}.`,
				"“{item}”售价 {price}，不到原价 {list} 的 {percent}%。",
				"item", item.Title, "price", sale, "percent", steepest, "list", list)
		case item.SalePrice == item.ListPrice:
			says = fault.T(`"{item}" sells at its list price, {list}.`, "“{item}”售价与原价相同：{list}。", "item", item.Title, "list", list)
		default:
			continue
		}
		found = append(found, preflight.Finding{Level: preflight.Warning, Subject: inventory.ItemSubject(item.ID), Found: says})
	}
	return found
}

// handover is whether the shop learns where the goods go.
func (p *planned) handover() []preflight.Finding {
	switch c := &p.Checkout; {
	case c.Offers(seckillevent.Delivery) && c.Address != seckillevent.Required:
		return []preflight.Finding{{Level: preflight.Warning, Found: fault.T("The goods are shipped, but shoppers need not give an address.",
			"商品需要配送，但没有要求顾客填写收货地址。")}}
	case len(c.Ways) == 0: // such as a voucher, but also a plan in which it was forgotten
		return []preflight.Finding{{Level: preflight.OK, Found: fault.T("No delivery method is set: orders have no address and no store.",
			"未设置配送方式：订单没有收货地址，也没有自提门店。")}}
	}
	return nil
}

// reservations tells how many have reserved where only they may take part.
func (p *planned) reservations(ctx context.Context, _ preflight.Need) (found []preflight.Finding, err error) {
	var ids []int64
	for session, item := range p.Items() {
		if session.ReservationOpensAt != nil {
			ids = append(ids, item.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	counts, err := plan.Reservations(ctx, p.s.deps.DB, ids)
	if err != nil {
		return nil, err
	}
	for session, item := range p.Items() {
		if session.ReservationOpensAt == nil {
			continue
		}
		f := preflight.Finding{
			Level: preflight.OK, Subject: inventory.ItemSubject(item.ID),
			Found: fault.T(`{reserved} shoppers have reserved "{item}"; {units} units are on sale.`,
				"已有 {reserved} 人预约“{item}”，可售 {units} 件。",
				"reserved", counts[item.ID], "item", item.Title, "units", plan.UnitsOnSale(item)),
		}
		if counts[item.ID] == 0 && p.at.After(*session.ReservationOpensAt) {
			f.Level = preflight.Warning
		}
		found = append(found, f)
	}
	return found, nil
}

const (
	// measuredWithin is how long ago a sale or a practice still says what this shop
	// can do: machines and versions change.
	measuredWithin = 30 * 24 * time.Hour
	// answeredWithin is how long a crowd that presses at once may wait for its answers.
	answeredWithin = 5 // seconds
)

// capacity compares the expected crowd with the busiest second of the sales and
// practices before. That they were not asked for more than they answered is unknown,
// so that it never stops a sale.
func (p *planned) capacity(ctx context.Context, need preflight.Need) ([]preflight.Finding, error) {
	if need.Shoppers == 0 {
		return []preflight.Finding{{Level: preflight.OK, Found: fault.T("Enter the expected number of shoppers to compare it with past sales.",
			"未填写预计人数，未与以往的处理能力比较。")}}, nil
	}
	most, err := pg.Read(ctx, p.s.deps.Standby, p.s.deps.DB, func(ctx context.Context, db pg.DB) (int64, error) {
		return tally.Busiest(ctx, db, rush.StageAnswers, measuredWithin)
	})
	if err != nil {
		return nil, err
	}
	f := preflight.Finding{Level: preflight.Warning, Found: fault.T("No rush in the last 30 days to compare with.",
		"最近 30 天没有抢购记录，处理能力未知。")}
	if most > 0 {
		f.Found = fault.T("{expected} shoppers are expected; the busiest second of the last 30 days answered {most}.",
			"预计 {expected} 人；最近 30 天每秒最多处理 {most} 次抢购。", "expected", need.Shoppers, "most", most)
		if int64(need.Shoppers) <= most*answeredWithin {
			f.Level = preflight.OK
		}
	}
	return []preflight.Finding{f}, nil
}
