package cloudsign

import (
	"net/http"
	"testing"
	"time"

	"stampede/platform/workshop/require"
)

// TestPublishedExamples signs the requests of the providers' own handbooks, whose signatures
// they print: the stand-ins of our tests verify what we believe that they verify.
func TestPublishedExamples(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	// https://cloud.tencent.com/document/api/213/30654, with the asterisks in the key.
	Tencent(h, Key{"AKIDz8krbsJ5yKBZQpn74WFkmLPx3*******", "Gu5t9xGARNpq86cd98joQYCN3*******"}, Call{
		Host: "cvm.tencentcloudapi.com", Action: "DescribeInstances", Version: "2017-03-12", Service: "cvm", Region: "ap-guangzhou",
		Type: "application/json; charset=utf-8",
		Body: []byte(`{"Limit": 1, "Filters": [{"Values": ["\u672a\u547d\u540d"], "Name": "instance-name"}]}`),
	}, time.Unix(1551113065, 0))
	require.Equal(t, "Tencent Cloud's signature", h.Get("Authorization"),
		"TC3-HMAC-SHA256 Credential=AKIDz8krbsJ5yKBZQpn74WFkmLPx3*******/2019-02-25/cvm/tc3_request, "+
			"SignedHeaders=content-type;host, Signature=2230eefd229f582d8b1b891af7107b91597240707d778ab3738f756258d7652c")

	h = http.Header{}
	// https://help.aliyun.com/zh/sdk/product-overview/v3-request-structure-and-signature
	aliyun(h, Key{"YourAccessKeyId", "YourAccessKeySecret"}, Call{
		Host: "ecs.cn-shanghai.aliyuncs.com", Action: "RunInstances", Version: "2014-05-26",
		Query: "ImageId=win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd&RegionId=cn-shanghai",
	}, time.Date(2023, 10, 26, 10, 22, 32, 0, time.UTC), "3156853299f313e23d1673dc12e1703d")
	require.Equal(t, "Aliyun's signature", h.Get("Authorization"),
		"ACS3-HMAC-SHA256 Credential=YourAccessKeyId,SignedHeaders=host;x-acs-action;x-acs-content-sha256;x-acs-date;"+
			"x-acs-signature-nonce;x-acs-version,Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0")
}
