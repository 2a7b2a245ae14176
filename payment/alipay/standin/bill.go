package standin

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/text/encoding/simplifiedchinese"

	"stampede/payment/alipay"
	"stampede/payment/internal/company"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
)

// billPath is where bills are downloaded; as there, the address is all that it needs.
const billPath = sandbox.Prefix + "/alipay/bill.zip"

// plainURL is the site of the links that the company gives unless it is asked for secure ones. Here it leads nowhere.
const plainURL = "http://dwbillcenter.invalid"

// bill says where the bill of a day is. A day without movements has none.
func (c *Company) bill(ctx context.Context, desk sandbox.Desk, biz alipay.Biz) (out alipay.Reply, err error) {
	missing := &refusal{"isp.bill_not_exist", "there is no such bill"}
	from, err := time.ParseInLocation(time.DateOnly, biz.BillDate, company.China)
	if err != nil {
		return out, missing
	}
	rows, err := desk.Movements(ctx, provider.Day{From: from, To: from.AddDate(0, 0, 1)}, sandbox.Mark{}, 1)
	if _, early := errors.AsType[*sandbox.RefusalError](err); early {
		return out, missing
	}
	if err == nil && len(rows) == 0 {
		return out, &refusal{"NO_BILL_DATA", "nothing moved"}
	}
	site := plainURL
	if biz.Secure == "true" {
		site = c.url
	}
	return alipay.Reply{BillDownloadURL: site + billPath + "?date=" + biz.BillDate}, err
}

// download sends the archive of a day's bill.
func (c *Company) download(w http.ResponseWriter, r *http.Request, desk sandbox.Desk) {
	from, err := time.ParseInLocation(time.DateOnly, r.FormValue("date"), company.China)
	if err != nil {
		http.Error(w, "no such bill", http.StatusNotFound)
		return
	}
	archive := zip.NewWriter(w)
	err = c.write(r.Context(), archive, desk, provider.Day{From: from, To: from.AddDate(0, 0, 1)})
	if err = errors.Join(err, archive.Close()); err != nil {
		c.log.ErrorContext(r.Context(), "Alipay's stand-in failed", "error", err)
	}
}

func (c *Company) write(ctx context.Context, archive *zip.Writer, desk sandbox.Desk, day provider.Day) error {
	gbk := simplifiedchinese.GBK.NewEncoder()
	for _, name := range []string{alipay.DetailsName + "(汇总)", alipay.DetailsName} {
		text, err := gbk.String(c.seller + "_" + day.From.Format("20060102") + "_" + name + ".csv")
		if err != nil {
			return err
		}
		f, err := archive.CreateHeader(&zip.FileHeader{Name: text, NonUTF8: true, Method: zip.Deflate})
		if err != nil {
			return err
		}
		out := gbk.Writer(f)
		if name != alipay.DetailsName {
			if _, err := io.WriteString(out, "#支付宝业务汇总查询\r\n门店编号,交易订单总笔数\r\n合计,1\r\n"); err != nil {
				return err
			}
			continue
		}
		if err := c.details(ctx, out, desk, day); err != nil {
			return err
		}
	}
	return nil
}

func (c *Company) details(ctx context.Context, out io.Writer, desk sandbox.Desk, day provider.Day) error {
	_, err := io.WriteString(out, "#支付宝业务明细查询\r\n#账号：["+c.seller+"]\r\n#-----业务明细列表-----\r\n"+
		"支付宝交易号,商户订单号,业务类型,商品名称,创建时间,完成时间,订单金额（元）,商家实收（元）,退款批次号/请求号,服务费（元）,备注\r\n")
	if err != nil {
		return err
	}
	for m, err := range desk.Day(ctx, day) {
		if err != nil {
			return err
		}
		business, sign, trade := "交易", "", number(m.Transaction)
		if m.RefundNo != "" {
			business, sign, trade = alipay.BusinessRefund, "-", "2026"+m.PaymentRef.String()
		}
		_, err = fmt.Fprintf(out, "%s\t,%s\t,%s,\"限量版, 红色\",%s,%s,%s%s,%s%s,%s\t,-0.01,\r\n", trade, m.PaymentNo, business,
			alipay.Time(m.At), alipay.Time(m.At), sign, company.Yuan(m.Amount), sign, company.Yuan(m.Amount), m.RefundNo)
		if err != nil {
			return err
		}
	}
	_, err = io.WriteString(out, "#-----业务明细列表结束-----\r\n")
	return err
}
