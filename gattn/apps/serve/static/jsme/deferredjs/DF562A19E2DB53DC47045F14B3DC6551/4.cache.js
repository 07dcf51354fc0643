$wnd.jsme.runAsyncCallback4('x(734,623,tn);_.be=function(){this.a.Mc&&Q2(this.a.Mc);this.a.Mc=new V2(1,this.a)};R(k_)(4);\n//@ sourceURL=4.js\n')
