$wnd.jsme.runAsyncCallback4('x(730,619,sn);_.be=function(){this.a.Mc&&v2(this.a.Mc);this.a.Mc=new A2(1,this.a)};T(SZ)(4);\n//@ sourceURL=4.js\n')
