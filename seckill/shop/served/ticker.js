self.onmessage=({data:{id:e,ms:s}})=>setTimeout(()=>self.postMessage(e),s);
