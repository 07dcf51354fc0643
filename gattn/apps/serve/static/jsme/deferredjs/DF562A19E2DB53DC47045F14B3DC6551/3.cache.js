$wnd.jsme.runAsyncCallback3('x(732,623,tn);_.be=function(){this.a.n&&Q2(this.a.n);this.a.n=new V2(0,this.a)};R(k_)(3);\n//@ sourceURL=3.js\n')
